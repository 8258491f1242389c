#ifndef ISOBIT_TOOLS_ISOBIT_EVENT_H_
#define ISOBIT_TOOLS_ISOBIT_EVENT_H_

// What a command waits for: input, results of the engine, Ctrl-C. Each is a file descriptor, so
// that one poll() waits for all.

#include <initializer_list>

namespace isobit {

// A flag that any thread, and a signal handler, may raise and that poll() can wait for.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  int fd() const { return fd_; }
  void Raise();
  void Clear();

 private:
  int fd_;
};

// Waits until one of the descriptors can be read or has ended, or until `timeout_ms` have passed
// (negative: no limit). Negative descriptors are ignored. Returns a readable one, the first in the
// order given, or -1.
int WaitForAny(std::initializer_list<int> descriptors, int timeout_ms = -1);

// ---- Ctrl-C

// From now on the first SIGINT or SIGTERM is only noted; the second ends the process as usual. For
// commands that look at Interrupted(); others are ended at once.
void CatchInterrupts();
bool Interrupted();
// Readable once interrupted.
int InterruptDescriptor();
// Forgets an interrupt that was dealt with.
void ClearInterrupt();

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_EVENT_H_
