#ifndef ISOBIT_INVARIANCE_GUARANTEE_H_
#define ISOBIT_INVARIANCE_GUARANTEE_H_

// What is promised, for which operation, type and device, and which test proves it. The program
// prints this table (`isobit guarantee`), the README holds a copy that a test compares, and what it
// refuses is refused at start.

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/ops.h"

namespace isobit {

enum class Guarantee {
  kPortable,  // same bits on the CPU and on every GPU whose tensor core computes dot16
  kDevice,    // same bits for any batch and schedule on this type of device only
  kRefused,   // not proven: said at start, not run
};
const char* GuaranteeName(Guarantee level);  // "portable", "device", "refused"

struct GuaranteeLine {
  std::string_view operation;
  std::string_view type;
  std::string_view device;
  Guarantee level;
  std::string_view proof;  // the test, or the tests of a folder
};
std::span<const GuaranteeLine> GuaranteeTable();

// The table in Markdown, as it stands in the README.
std::string GuaranteeMarkdown();

// The level of a whole model on a device: of its weakest operation.
Guarantee LevelOf(const DeviceInfo& device);

// OK unless the device is refused: then FailedPrecondition that says what to do instead.
absl::Status CheckGuarantee(const DeviceInfo& device);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_GUARANTEE_H_
