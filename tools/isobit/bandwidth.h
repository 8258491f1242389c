#ifndef ISOBIT_TOOLS_ISOBIT_BANDWIDTH_H_
#define ISOBIT_TOOLS_ISOBIT_BANDWIDTH_H_

#include <cstddef>

namespace isobit {

// Bytes a second at which `threads` threads together read memory that no cache holds: the best of
// several passes over `bytes` bytes. The ceiling of decoding, which reads every weight once a
// token.
double MeasureReadBandwidth(int threads, size_t bytes = size_t{512} << 20);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_BANDWIDTH_H_
