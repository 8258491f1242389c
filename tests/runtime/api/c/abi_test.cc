// What a compiled program relies on: names and versions of symbols, places of fields, values of
// constants. golden/api/ holds them; a change there breaks programs, an addition does not.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "isobit.h"

namespace isobit {
namespace {

std::string Golden(const std::string& name) {
  std::ifstream file(std::string(ISOBIT_SOURCE_DIR "/golden/api/") + name);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const size_t read = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), read);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

TEST(Abi, ExportsTheseSymbolsAndNoOthers) {
  std::istringstream lines(OutputOf("nm -D --defined-only --with-symbol-versions " ISOBIT_LIBRARY));
  std::set<std::string> symbols;
  for (std::string address, kind, symbol; lines >> address >> kind >> symbol;) {
    if (kind != "A") symbols.insert(symbol);  // the version node itself
  }
  std::string text;
  for (const std::string& symbol : symbols) text += symbol + "\n";
  EXPECT_EQ(text, Golden("symbols.txt"));
}

TEST(Abi, TheLibraryIsNamedByItsAbiVersion) {
  const std::string expected = "libisobit.so." + std::to_string(ISOBIT_ABI_VERSION);
  EXPECT_NE(OutputOf("readelf -d " ISOBIT_LIBRARY).find("[" + expected + "]"), std::string::npos);
}

// One line a field: struct, field, offset, size.
class Layout {
 public:
  void Field(const char* type, const char* field, size_t offset, size_t size) {
    text_ << type << " " << field << " " << offset << " " << size << "\n";
  }
  void Constant(const char* name, int value) { text_ << name << " " << value << "\n"; }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

// Names of fields can't be passed to a function.
#define FIELD(type, field) layout.Field(#type, #field, offsetof(type, field), sizeof(type::field))
#define CONSTANT(name) layout.Constant(#name, name)

void AddParameters(Layout& layout) {
  FIELD(isobit_engine_params, struct_size);
  FIELD(isobit_engine_params, device);
  FIELD(isobit_engine_params, threads);
  FIELD(isobit_engine_params, max_model_len);
  FIELD(isobit_engine_params, max_num_seqs);
  FIELD(isobit_engine_params, max_num_batched_tokens);
  FIELD(isobit_engine_params, block_size);
  FIELD(isobit_engine_params, kv_cache_tokens);
  FIELD(isobit_engine_params, prefix_cache);
  FIELD(isobit_engine_params, has_seed);
  FIELD(isobit_engine_params, seed);
  FIELD(isobit_sampling_params, struct_size);
  FIELD(isobit_sampling_params, max_tokens);
  FIELD(isobit_sampling_params, min_tokens);
  FIELD(isobit_sampling_params, temperature);
  FIELD(isobit_sampling_params, top_k);
  FIELD(isobit_sampling_params, top_p);
  FIELD(isobit_sampling_params, min_p);
  FIELD(isobit_sampling_params, n);
  FIELD(isobit_sampling_params, presence_penalty);
  FIELD(isobit_sampling_params, frequency_penalty);
  FIELD(isobit_sampling_params, repetition_penalty);
  FIELD(isobit_sampling_params, seed);
  FIELD(isobit_sampling_params, has_seed);
  FIELD(isobit_sampling_params, ignore_eos);
  FIELD(isobit_sampling_params, logprobs);
  FIELD(isobit_sampling_params, prompt_logprobs);
  FIELD(isobit_sampling_params, logprobs_mode);
  FIELD(isobit_sampling_params, reserved);
  FIELD(isobit_sampling_params, logit_bias);
  FIELD(isobit_sampling_params, logit_bias_count);
  FIELD(isobit_sampling_params, stop);
  FIELD(isobit_sampling_params, stop_count);
  FIELD(isobit_sampling_params, stop_token_ids);
  FIELD(isobit_sampling_params, stop_token_id_count);
  FIELD(isobit_request_params, struct_size);
  FIELD(isobit_request_params, id);
  FIELD(isobit_request_params, text);
  FIELD(isobit_request_params, text_length);
  FIELD(isobit_request_params, token_ids);
  FIELD(isobit_request_params, token_id_count);
  FIELD(isobit_request_params, messages);
  FIELD(isobit_request_params, message_count);
  FIELD(isobit_request_params, sampling);
  FIELD(isobit_request_params, on_token);
  FIELD(isobit_request_params, on_done);
  FIELD(isobit_request_params, user_data);
  FIELD(isobit_request_params, receipt);
  FIELD(isobit_request_params, reserved);
  FIELD(isobit_request_params, messages_json);
  FIELD(isobit_request_params, messages_json_length);
  FIELD(isobit_request_params, tools);
  FIELD(isobit_request_params, tools_length);
  FIELD(isobit_request_params, chat_template_kwargs);
  FIELD(isobit_request_params, chat_template_kwargs_length);
  FIELD(isobit_message, role);
  FIELD(isobit_message, content);
  FIELD(isobit_message, content_length);
  FIELD(isobit_logit_bias, token_id);
  FIELD(isobit_logit_bias, bias);
}

void AddResults(Layout& layout) {
  FIELD(isobit_engine_info, struct_size);
  FIELD(isobit_engine_info, model_digest);
  FIELD(isobit_engine_info, device);
  FIELD(isobit_engine_info, vocab_size);
  FIELD(isobit_engine_info, max_model_len);
  FIELD(isobit_engine_info, max_num_seqs);
  FIELD(isobit_engine_info, max_num_batched_tokens);
  FIELD(isobit_engine_info, kv_cache_tokens);
  FIELD(isobit_engine_info, weight_bytes);
  FIELD(isobit_engine_info, bos_token_id);
  FIELD(isobit_engine_info, eos_token_id);
  FIELD(isobit_engine_stats, struct_size);
  FIELD(isobit_engine_stats, steps);
  FIELD(isobit_engine_stats, waiting);
  FIELD(isobit_engine_stats, running);
  FIELD(isobit_engine_stats, preemptions);
  FIELD(isobit_engine_stats, prompt_tokens);
  FIELD(isobit_engine_stats, cached_tokens);
  FIELD(isobit_engine_stats, generated_tokens);
  FIELD(isobit_token, struct_size);
  FIELD(isobit_token, choice);
  FIELD(isobit_token, token_id);
  FIELD(isobit_token, text);
  FIELD(isobit_token, text_length);
  FIELD(isobit_token, logprob);
  FIELD(isobit_token, has_logprob);
  FIELD(isobit_token, top);
  FIELD(isobit_token, top_count);
  FIELD(isobit_token_logprob, token_id);
  FIELD(isobit_token_logprob, logprob);
  FIELD(isobit_completion_info, struct_size);
  FIELD(isobit_completion_info, digest);
  FIELD(isobit_completion_info, model_digest);
  FIELD(isobit_completion_info, seed);
  FIELD(isobit_completion_info, has_seed);
  FIELD(isobit_completion_info, choice_count);
  FIELD(isobit_completion_info, prompt_token_count);
  FIELD(isobit_completion_info, cached_tokens);
  FIELD(isobit_completion_info, has_prompt_logprobs);
  FIELD(isobit_completion_info, has_receipt);
  FIELD(isobit_choice_info, struct_size);
  FIELD(isobit_choice_info, digest);
  FIELD(isobit_choice_info, finish_reason);
  FIELD(isobit_choice_info, has_logprobs);
  FIELD(isobit_choice_info, token_count);
  FIELD(isobit_choice_info, text_length);
}

void AddConstants(Layout& layout) {
  CONSTANT(ISOBIT_ABI_VERSION);
  CONSTANT(ISOBIT_DIGEST_SIZE);
  CONSTANT(ISOBIT_OK);
  CONSTANT(ISOBIT_INVALID_ARGUMENT);
  CONSTANT(ISOBIT_NOT_FOUND);
  CONSTANT(ISOBIT_OUT_OF_RANGE);
  CONSTANT(ISOBIT_RESOURCE_EXHAUSTED);
  CONSTANT(ISOBIT_UNSUPPORTED);
  CONSTANT(ISOBIT_FAILED_PRECONDITION);
  CONSTANT(ISOBIT_BUFFER_TOO_SMALL);
  CONSTANT(ISOBIT_DIFFERENT);
  CONSTANT(ISOBIT_CANCELLED);
  CONSTANT(ISOBIT_TIMEOUT);
  CONSTANT(ISOBIT_INTERNAL);
  CONSTANT(ISOBIT_ADD_SPECIAL);
  CONSTANT(ISOBIT_PARSE_SPECIAL);
  CONSTANT(ISOBIT_KEEP_SPECIAL);
  CONSTANT(ISOBIT_LOGPROBS_RAW);
  CONSTANT(ISOBIT_LOGPROBS_PROCESSED);
  CONSTANT(ISOBIT_FINISH_STOP);
  CONSTANT(ISOBIT_FINISH_LENGTH);
  CONSTANT(ISOBIT_FINISH_CANCELLED);
}

TEST(Abi, FieldsAndConstantsStayWhereTheyAre) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "recorded for 64-bit pointers";
  Layout layout;
  AddParameters(layout);
  AddResults(layout);
  AddConstants(layout);
  EXPECT_EQ(layout.text(), Golden("layout.txt"));
}

}  // namespace
}  // namespace isobit
