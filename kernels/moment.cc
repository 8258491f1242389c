// Moments of backends whose operations are done when Run() returns: the host's clock.

#include <chrono>

#include "kernels/ops.h"

namespace isobit {
namespace {

using Clock = std::chrono::steady_clock;

struct HostMoment : Moment {
  Clock::time_point time = Clock::now();
};

}  // namespace

std::unique_ptr<Moment> Backend::Mark() { return std::make_unique<HostMoment>(); }

double Backend::SecondsBetween(const Moment& begin, const Moment& end) const {
  return std::chrono::duration<double>(static_cast<const HostMoment&>(end).time -
                                       static_cast<const HostMoment&>(begin).time)
      .count();
}

}  // namespace isobit
