// Makes golden/digests/tiny.json and smollm2.json, golden/orders/trees.json and
// golden/receipts/tiny_N.json anew: isobit_make_goldens. The real model runs on the CPU backend,
// all else on the reference backend. golden/CHANGES.md says when that is right.

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backends.h"
#include "runtime/receipt/atomic_file.h"
#include "tests/invariance/golden_digests.h"
#include "tests/invariance/golden_orders.h"
#include "tests/model_path.h"

namespace isobit {
namespace {

bool Say(const std::string& path, const absl::Status& status) {
  if (status.ok()) {
    std::printf("wrote %s\n", path.c_str());
  } else {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), status.ToString().c_str());
  }
  return status.ok();
}

bool Write(const std::string& path, const absl::StatusOr<nlohmann::json>& golden) {
  if (!golden.ok()) return Say(path, golden.status());
  return Say(path, WriteFileAtomically(path, golden->dump(1) + "\n"));
}

bool WriteReceipts(const absl::StatusOr<std::vector<Receipt>>& receipts) {
  if (!receipts.ok()) return Say(GoldenTinyReceiptPath(0), receipts.status());
  bool all = true;
  for (size_t i = 0; i < receipts->size(); ++i) {
    const std::string path = GoldenTinyReceiptPath(i);
    all = Say(path, WriteReceipt(path, (*receipts)[i])) && all;
  }
  return all;
}

int Main() {
  const std::unique_ptr<Backend> reference = CreateReferenceBackend();
  const bool orders = Write(GoldenOrdersPath(), RevealGoldenOrders(*reference));
  const bool receipts = WriteReceipts(ComputeTinyReceipts(CreateReferenceBackend));
  const std::string folder = GoldenDigestsFolder();
  const bool tiny = Write(folder + "tiny.json", ComputeTinyGoldens(CreateReferenceBackend));
  auto cpu = CreateCpuBackend({});
  const bool real = cpu.ok() ? Write(folder + "smollm2.json",
                                     ComputeModelGolden(TestModelPath(), *std::move(cpu)))
                             : Say(folder + "smollm2.json", cpu.status());
  return orders && receipts && tiny && real ? 0 : 1;
}

}  // namespace
}  // namespace isobit

int main() { return isobit::Main(); }
