// isobit order: the order in which a backend adds, found from outside, beside the contract's.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "invariance/order/order_check.h"
#include "runtime/model/model.h"
#include "tools/isobit/command.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"

namespace isobit {
namespace {

struct OrderCommandOptions {
  ModelOptions model;
  OrderOptions order;
  bool trees = false;
};

void Print(const RevealedOrder& order, bool trees) {
  std::printf("%s\n",
              absl::StrFormat("%-5s %-44s %6d terms  %6.1f s%s%s", order.ok() ? "ok" : "FAIL",
                              order.name, order.terms, order.seconds,
                              order.deviation.empty() ? "" : "  ", order.deviation)
                  .c_str());
  if (trees || !order.ok()) std::printf("%s\n", order.order.c_str());
  std::fflush(stdout);
}

ExitCode RunOrder(const OrderCommandOptions& options) {
  ExitCode code;
  const std::unique_ptr<Model> model = LoadModel(options.model, code);
  if (model == nullptr) return code;
  const ModelConfig& config = model->config();
  OrderOptions order = options.order;
  order.on_order = [&options](const RevealedOrder& o) { Print(o, options.trees); };
  const absl::StatusOr<std::vector<RevealedOrder>> orders =
      RevealOrders(model->backend(),
                   {.width = config.width,
                    .ffn_width = config.ffn_width,
                    .vocab = config.vocab,
                    .heads = config.heads,
                    .kv_heads = config.kv_heads,
                    .head_dim = config.head_dim,
                    .page_tokens = static_cast<int>(options.model.engine.block_size)},
                   order);
  if (!orders.ok()) {
    LogError(orders.status());
    return kExitUnusable;
  }
  int64_t failed = 0;
  for (const RevealedOrder& o : *orders) failed += o.ok() ? 0 : 1;
  std::printf("%s\n",
              absl::StrFormat("%d orders, %d not the contract's", orders->size(), failed).c_str());
  if (!FlushStandardOutput()) return kExitUnusable;
  return failed == 0 && !orders->empty() ? kExitOk : kExitFailed;
}

}  // namespace

Command AddOrder(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "order",
      "Reveal from outside, by results alone, in which order every sum of this backend is added in "
      "the model's shapes, and compare it with the contract's. Prints a line for each; the exit "
      "code is 1 if one is another.");
  const auto options = std::make_shared<OrderCommandOptions>();
  command->add_option("--rows", options->order.rows, "Batch sizes to look at")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  command->add_option("--keys", options->order.keys, "Keys of attention (a split holds 1024)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_flag("--trees", options->trees, "Print every order as an outline");
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunOrder(*options); }};
}

}  // namespace isobit
