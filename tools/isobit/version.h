#ifndef ISOBIT_TOOLS_ISOBIT_VERSION_H_
#define ISOBIT_TOOLS_ISOBIT_VERSION_H_

namespace isobit {

inline constexpr char kBuildName[] = "isobit " ISOBIT_VERSION;

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_VERSION_H_
