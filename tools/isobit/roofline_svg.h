#ifndef ISOBIT_TOOLS_ISOBIT_ROOFLINE_SVG_H_
#define ISOBIT_TOOLS_ISOBIT_ROOFLINE_SVG_H_

#include <span>
#include <string>

#include "kernels/profiling_backend.h"
#include "tools/isobit/ceilings.h"

namespace isobit {

// The least seconds that an operation can take on a device with these ceilings.
double FloorSeconds(const OperationProfile& operation, const Ceilings& ceilings);

// A picture of one step: on the left the roofline (flops a second over flops a byte, both
// logarithmic), on the right the time of each operation and within it the floor. SVG, with no
// script and nothing loaded from elsewhere.
std::string RooflineSvg(std::span<const OperationProfile> operations, const Ceilings& ceilings,
                        const std::string& title);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_ROOFLINE_SVG_H_
