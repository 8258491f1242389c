#ifndef ISOBIT_KERNELS_NUMERICS_CONTRACT_VERSION_H_
#define ISOBIT_KERNELS_NUMERICS_CONTRACT_VERSION_H_

namespace isobit {

// Version of kernels/numerics/contract.md. Any change of bits raises it, adds a line to
// golden/CHANGES.md and renews the goldens. Every digest and receipt carries it.
inline constexpr int kContractVersion = 1;

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_CONTRACT_VERSION_H_
