// Writes the small inputs that the fuzzers start from. usage: make_seeds FOLDER
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/runtime/model/gguf_builder.h"
#include "tests/runtime/model/safetensors_builder.h"
#include "tests/runtime/text/toy_tokenizer.h"

namespace isobit {
namespace {

class Seeds {
 public:
  Seeds(const std::filesystem::path& root, const char* target) : folder_(root / target) {
    std::filesystem::create_directories(folder_);
  }
  void Add(const std::string& bytes) {
    std::ofstream out(folder_ / std::to_string(count_++), std::ios::binary);
    out << bytes;
    if (!out.flush()) std::perror("can't write a seed"), std::exit(1);
  }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
};

GgufBuilder ToyFile() {
  ToyTokenizer toy;
  toy.Merge("a", "b");
  toy.Token("<x>", TokenKind::kControl);
  std::vector<int32_t> kinds;
  for (const TokenKind kind : toy.kinds) kinds.push_back(static_cast<int32_t>(kind));
  GgufBuilder b;
  b.Text("tokenizer.ggml.model", "gpt2").Text("tokenizer.ggml.pre", "smollm");
  b.Texts("tokenizer.ggml.tokens", toy.tokens).Texts("tokenizer.ggml.merges", toy.merges);
  return b.Ints("tokenizer.ggml.token_type", kinds);
}

// Requests and receipts: every field once.
void WriteRequests(Seeds seeds) {
  const std::string sampling =
      R"("max_tokens":8,"min_tokens":1,"temperature":0.5,"top_k":4,"top_p":0.9,"min_p":0.1,)"
      R"("seed":7,"n":2,"presence_penalty":0.5,"frequency_penalty":-1,"repetition_penalty":1.5,)"
      R"("logit_bias":{"5":-2.5},"stop":["\n"],"stop_token_ids":[2],"ignore_eos":true,)"
      R"("logprobs":3,"prompt_logprobs":0,"logprobs_mode":"processed")";
  seeds.Add(R"({"id":"a","prompt":"x","seed":null,"stop":"y"})");
  seeds.Add(R"({"id":"a","prompt_token_ids":[1,2],)" + sampling + "}");
  seeds.Add(R"({"id":"a","messages":[{"role":"user","content":"\u00e9"}]})");
  const std::string digest(32, '0');
  seeds.Add(R"({"format":"isobit receipt","version":1,"build":"b","contract":1,"model":{"name":)"
            R"("m","digest":")" +
            digest + R"("},"id":"a","digest":")" + digest + R"(","sampling":{)" + sampling +
            R"(},"prompt_token_ids":[1,2],"prompt_logprobs":[null,-0.5],"choices":[{"index":0,)"
            R"("finish_reason":"length","text":"t","token_ids":[3,4],"logprobs":[-0.25,null],)"
            R"("digest":")" +
            digest + "\"}]}");
}

// Configurations: one that every family reads, and one of each scheme of rotation.
void WriteConfigs(Seeds seeds) {
  const std::string sizes =
      R"({"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
      R"("intermediate_size":96,"vocab_size":160,"max_position_embeddings":256,"rms_norm_eps":1e-6,)"
      R"("hidden_activation":null,"tie_word_embeddings":true)";
  seeds.Add(sizes + "}");
  seeds.Add(sizes + R"(,"sliding_window":20,"use_sliding_window":true,"max_window_layers":1})");
  seeds.Add(sizes + R"(,"layer_types":["full_attention","sliding_attention"],"sliding_window":9})");
  seeds.Add(sizes + R"(,"rope_theta":5e5,"rope_scaling":{"type":"linear","factor":2}})");
  seeds.Add(sizes +
            R"(,"rope_parameters":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,)"
            R"("high_freq_factor":4.0,"original_max_position_embeddings":64}})");
  seeds.Add(sizes + R"(,"rope_parameters":{"rope_type":"yarn","factor":4.0,"beta_fast":32,)"
                    R"("rope_theta":10000.0,"original_max_position_embeddings":64}})");
  seeds.Add(sizes + R"(,"rope_scaling":{"rope_type":"longrope","short_factor":[1,1,1,1,1,1,1,2]},)"
                    R"("original_max_position_embeddings":64})");
  seeds.Add(sizes + R"(,"rope_scaling":{"rope_type":"longrope","short_factor":[1,1,1,1,1,1,1,2],)"
                    R"("long_factor":[1,2,3,4,5,6,7,8],"original_max_position_embeddings":64}})");
  seeds.Add(sizes + R"(,"rope_scaling":{"type":"dynamic","factor":2.5}})");
  seeds.Add(sizes + R"(,"hidden_act":"gelu_pytorch_tanh","rope_parameters":{"full_attention":)"
                    R"({"rope_type":"linear","factor":8.0,"rope_theta":1e6},)"
                    R"("sliding_attention":{"rope_theta":1e4}},"query_pre_attn_scalar":256})");
  seeds.Add(R"({"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":20,"eos_token_id":[1,2]})");
  GgufBuilder gguf;
  gguf.U32("llama.block_count", 1).U32("llama.embedding_length", 8);
  gguf.U32("llama.feed_forward_length", 8).U32("llama.context_length", 64);
  gguf.U32("llama.attention.head_count", 1);
  gguf.Field("llama.attention.layer_norm_rms_epsilon", GgufType::kFloat32, GgufBuilder::Raw(1e-5f));
  gguf.Tensor("token_embd.weight", {8, 2}, 0, 0, std::string(64, '\x3C'));
  gguf.Tensor("rope_freqs.weight", {4}, 0, 64, std::string(16, '\x3F'));
  seeds.Add(gguf.Build());
}

void WriteSafetensors(Seeds seeds) {
  seeds.Add(SafetensorsBuilder().Build());
  SafetensorsBuilder b;
  b.Tensor("a", "BF16", {2, 3}, std::string(12, 'a')).Tensor("b", "F32", {1}, "bbbb");
  b.Tensor("c", "F16", {2}, "cccc").Tensor("d", "I64", {1}, "dddddddd").Tensor("e", "F32", {0}, "");
  b.header["__metadata__"] = {{"format", "pt"}};
  seeds.Add(b.Build());
}

// The first byte is a path, 6 stands for raw bytes: see server_fuzz.cc.
void WriteServer(Seeds seeds) {
  const auto add = [&](char path, const std::string& text) {
    seeds.Add(std::string(1, path) + text);
  };
  add(0, R"({"model":null,"prompt":"ab","max_tokens":3,"seed":1,"logprobs":1,"echo":true,"n":2})");
  add(0, R"({"prompt":[[1,2],[3]],"max_tokens":2,"stream":true,"return_token_ids":true,)"
         R"("stream_options":{"include_usage":true},"temperature":0.5,"top_k":3,"top_p":0.9})");
  add(0, R"({"prompt":["a","b"],"stop":["x"],"logit_bias":{"5":1},"best_of":1,"user":"u"})");
  add(1, R"({"messages":[{"role":"user","content":"x"}],"max_tokens":2,"logprobs":true,)"
         R"("top_logprobs":2,"response_format":{"type":"text"}})");
  add(1, R"({"messages":[{"role":"user","content":"x"}],"stream":true,"max_completion_tokens":2})");
  add(2, R"({"prompt_token_ids":[1,2],"max_tokens":2,"prompt_logprobs":1,"stream":true})");
  add(3, R"({"prompt":"abc","prompt_logprobs":2})");
  add(4, R"({"prompt":"abc","add_special_tokens":false,"return_token_strs":true})");
  add(4, R"({"messages":[{"role":"user","content":"x"}],"add_generation_prompt":false})");
  add(5, R"({"tokens":[1,2,3]})");
  add(6, "GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.0\r\n\r\n");
  add(6,
      "POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
      "\r\nExpect: 100-continue\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
  add(6,
      "GET /v1/models/a%20b HTTP/1.1\r\nOrigin: http://x\r\nHost: x\r\nConnection: close\r\n\r\n");
}

void WriteAll(const std::filesystem::path& root) {
  Seeds gguf(root, "gguf");
  gguf.Add(GgufBuilder().Build());
  gguf.Add(GgufBuilder().Text("k", "v").U32("general.alignment", 32).Bool("b", true).Build());
  gguf.Add(GgufBuilder().Texts("t", {"x", "yz"}).Ints("i", {1, -2}).Build());
  gguf.Add(GgufBuilder()
               .Tensor("w", {32, 2}, 8, 0, std::string(68, 'w'))
               .Tensor("n", {5}, 0, 96, std::string(20, 'n'))
               .Build());
  gguf.Add(ToyFile().Build());

  Seeds tokenizer(root, "tokenizer");
  for (char which = 0; which < 12; ++which) {
    const std::string name(1, which);
    tokenizer.Add(name + "It's 1234 caf\xC3\xA9s,  don't\r\n\n <|end|>\xE4\xB8\xAD e\xCC\x81");
    tokenizer.Add(name + "\xFF\xE2\x82 \xFE\x05<|e<||");
  }

  Seeds chat(root, "chat_template");
  chat.Add(
      "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ 'a\\n' }}{% endif %}"
      "{{'<|' + m.role + '\\n' + m['content']|trim }}{% endfor %}");
  chat.Add(
      "{%- set x = [1, n, 'a'] -%}\n{{- x[0] // 2 ~ x|length if n is defined else none }}{# c #}");
  chat.Add(
      "{% if not (1 < n <= 7) or 'a' in 'abc' %}a{% elif n %}b{% else %}{{ raise_exception('x') "
      "}}{% endif %}");

  chat.Add(
      "{% macro m(a, b=[1]) %}{{ a|tojson(indent=2) }}{{ caller() }}{% endmacro %}{% set ns = "
      "namespace(x=1) %}{% for k, v in {'a': 1.5}|dictsort if v > 1 %}{% set ns.x = ns.x + v %}"
      "{% if loop.last %}{% break %}{% endif %}{% endfor %}{% call m('x') %}{{ ns.x }}{% endcall "
      "%}");
  chat.Add(
      "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(', ') }}"
      "{{ 'a,b'.split(',')[::-1] }}{% set t %}{{ strftime_now('%d %b') }}{% endset %}{{ t|upper }}"
      "{{ messages[1:]|list|length }}{{ '{}'.format(n) }}{{ n is divisibleby 7 }}");

  Seeds json(root, "tokenizer_json");
  json.Add(
      R"({"added_tokens":[{"id":0,"content":"<s>","special":true},{"id":5,"content":"cat",)"
      R"("single_word":true,"lstrip":true,"normalized":true}],"normalizer":{"type":"Sequence",)"
      R"("normalizers":[{"type":"Prepend","prepend":"_"},{"type":"Replace","pattern":{"String":" "},)"
      R"("content":"_"},{"type":"NFKC"}]},"pre_tokenizer":{"type":"Metaspace"},"decoder":{"type":)"
      R"("Metaspace"},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":)"
      R"("<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[0]}}},"model":{"type":)"
      R"("BPE","byte_fallback":true,"unk_token":"<s>","vocab":{"<s>":0,"a":1,"b":2,"ab":3,)"
      R"("<0x0A>":4},"merges":[["a","b"]]}})");
  json.Add(
      R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)"
      R"("\\s+(?!\\S)|[^\\p{L}]"},"behavior":"MergedWithNext","invert":true},{"type":"Digits"}]},)"
      R"("model":{"vocab":{"a":0},"merges":[]}})");

  Seeds pattern(root, "split_pattern");
  pattern.Add(R"((?i:'s|'t)|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}]+[\r\n]*|\s+(?!\S)|\s+$)");
  pattern.Add("[\xE4\xB8\x80-\xE9\xBE\xA5]++|\\P{Lu}*(?=a|b)(?:x|y)?");

  WriteRequests(Seeds(root, "request"));
  WriteConfigs(Seeds(root, "config"));
  WriteSafetensors(Seeds(root, "safetensors"));
  WriteServer(Seeds(root, "server"));

  Seeds widen(root, "widen");
  for (const int type : {0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30, 39}) {
    widen.Add(std::string(1, static_cast<char>(type)) + std::string(210, '\x3C'));
  }
}

}  // namespace
}  // namespace isobit

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  isobit::WriteAll(argv[1]);
  return 0;
}
