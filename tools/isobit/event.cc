#include "tools/isobit/event.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace isobit {
namespace {

std::atomic<bool> interrupted = false;

Event& InterruptEvent() {
  static Event* const event = new Event;  // never destroyed: a signal may come at any time
  return *event;
}

void OnSignal(int signal) {
  const int saved_errno = errno;
  if (interrupted.exchange(true)) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
    raise(signal);
  }
  InterruptEvent().Raise();
  errno = saved_errno;
}

}  // namespace

Event::Event() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) {
    std::perror("isobit: eventfd");
    std::abort();
  }
}

Event::~Event() { close(fd_); }

void Event::Raise() {
  const uint64_t one = 1;
  // Can only fail if it is raised already.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

void Event::Clear() {
  uint64_t count;
  [[maybe_unused]] const ssize_t read_bytes = read(fd_, &count, sizeof(count));
}

int WaitForAny(std::initializer_list<int> descriptors, int timeout_ms) {
  std::vector<pollfd> polled;
  for (const int fd : descriptors) polled.push_back({fd, POLLIN, 0});
  while (poll(polled.data(), polled.size(), timeout_ms) < 0) {
    if (errno != EINTR) return -1;
  }
  for (const pollfd& p : polled) {
    if (p.revents != 0) return p.fd;
  }
  return -1;
}

void CatchInterrupts() {
  InterruptEvent();
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted.load(); }
int InterruptDescriptor() { return InterruptEvent().fd(); }

void ClearInterrupt() {
  interrupted = false;
  InterruptEvent().Clear();
}

}  // namespace isobit
