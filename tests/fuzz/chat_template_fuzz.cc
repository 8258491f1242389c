// Any bytes as a chat template: parsed and rendered within small limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/text/jinja/evaluator.h"
#include "runtime/text/jinja/parser.h"
#include "runtime/text/utf8.h"

namespace isobit::jinja {
namespace {

Map Variables() {
  List messages;
  for (const char* role : {"system", "user", "assistant"}) {
    Map message;
    message.entries = {{"role", Value(role)}, {"content", Value(" h\xC3\xA9llo\n")}};
    messages.emplace_back(std::move(message));
  }
  Map variables;
  variables.entries = {{"messages", Value(std::move(messages))},
                       {"add_generation_prompt", Value(true)},
                       {"bos_token", Value("<s>")},
                       {"tools", Value()},
                       {"n", Value(int64_t{7})}};
  return variables;
}

}  // namespace
}  // namespace isobit::jinja

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isobit;
  static const jinja::Map kVariables = jinja::Variables();
  const auto block = jinja::Parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!block.ok()) {
    if (block.status().message().find("chat template") == absl::string_view::npos) std::abort();
    return 0;
  }
  jinja::Limits limits;
  limits.steps = 20'000;
  limits.bytes = 1'000'000;
  const auto text = jinja::Render(*block, kVariables, limits);
  if (text.ok() && ValidUtf8Prefix(*text) != text->size()) std::abort();
  return 0;
}
