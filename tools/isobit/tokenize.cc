// isobit tokenize: texts and conversations in, token ids out. Needs no weights.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/api/completion_json.h"
#include "runtime/api/json_writer.h"
#include "runtime/api/request_json.h"
#include "runtime/json/strict_json.h"
#include "runtime/model/tokenizer_files.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "tools/isobit/command.h"
#include "tools/isobit/line_reader.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/output_file.h"

namespace isobit {
namespace {

using nlohmann::ordered_json;

struct TokenizeOptions {
  ModelOptions model;  // of which only the model and the log matter here
  std::string input;
  std::string output = "-";
};

struct TextRequest {
  std::optional<std::string> id;
  std::optional<std::string> text;
  std::optional<std::vector<ChatMessage>> messages;
  bool add_generation_prompt = true;
  std::string tools, chat_template_kwargs;  // JSON
};

// The tokenizer and the chat template of a model file.
struct TextModel {
  std::unique_ptr<Tokenizer> tokenizer;
  absl::StatusOr<ChatTemplate> chat_template = absl::FailedPreconditionError("");

  absl::StatusOr<std::string> Apply(const TextRequest& request) const {
    if (!chat_template.ok()) return chat_template.status();
    const auto piece = [this](std::optional<int32_t> id) {
      return id.has_value() ? std::string(tokenizer->Piece(*id)) : std::string();
    };
    return chat_template->Apply(*request.messages,
                                {.add_generation_prompt = request.add_generation_prompt,
                                 .bos_token = piece(tokenizer->bos_id()),
                                 .eos_token = piece(tokenizer->eos_id()),
                                 .tools = request.tools,
                                 .kwargs = request.chat_template_kwargs});
  }
};

absl::StatusOr<TextModel> LoadTextModel(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = OpenTokenizer(path);
  if (!tokenizer.ok()) return tokenizer.status();
  TextModel model{*std::move(tokenizer)};
  if (const auto source = model.tokenizer->chat_template(); source.has_value()) {
    model.chat_template = ChatTemplate::Parse(*source);
  } else {
    model.chat_template = absl::FailedPreconditionError("the model file has no chat template");
  }
  return model;
}

absl::Status ReadTextRequest(const ordered_json& object, TextRequest& request) {
  if (!object.is_object()) return JsonTypeError("a line", "a JSON object", object);
  for (const auto& [name, value] : object.items()) {
    absl::Status status;
    if (name == "id") {
      status = ReadJson(value, name, request.id.emplace());
    } else if (name == "text") {
      status = ReadJson(value, name, request.text.emplace());
    } else if (name == "messages") {
      status = ReadMessages(value, name, request.messages.emplace());
    } else if (name == "add_generation_prompt") {
      status = ReadJson(value, name, request.add_generation_prompt);
    } else if (name == "tools") {
      status = ReadTools(value, name, request.tools);
    } else if (name == "chat_template_kwargs") {
      status = ReadChatTemplateKwargs(value, name, request.chat_template_kwargs);
    } else {
      status = absl::InvalidArgumentError(absl::StrCat("unknown field ", DescribeJson(name)));
    }
    if (!status.ok()) return status;
  }
  if (request.text.has_value() == request.messages.has_value()) {
    return absl::InvalidArgumentError("a line has one of text and messages");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Answer(const TextModel& model, TextRequest request) {
  EncodeOptions options;
  if (request.messages.has_value()) {
    absl::StatusOr<std::string> text = model.Apply(request);
    if (!text.ok()) return text.status();
    request.text = *std::move(text);
    options.add_special = false;  // the template writes them
  }
  const absl::StatusOr<std::vector<int32_t>> ids = model.tokenizer->Encode(*request.text, options);
  if (!ids.ok()) return ids.status();
  JsonWriter out;
  out.BeginObject();
  if (request.id.has_value()) out.Field("id", *request.id);
  out.Field("ids", *ids);
  out.Key("pieces").BeginArray();
  for (const int32_t id : *ids) {
    out.Value(model.tokenizer->Decode(std::span(&id, 1), /*skip_special=*/false));
  }
  out.EndArray();
  out.Field("text", *request.text);
  return out.EndObject().Take();
}

// The answer to one line; sets `failed` if it is an error.
std::string AnswerLine(const TextModel& model, const Line& line, bool& failed) {
  TextRequest request;
  absl::Status status;
  if (line.too_long) {
    status = absl::InvalidArgumentError(
        absl::StrCat("a line must be at most ", kMaxRequestBytes, " bytes long"));
  } else {
    const absl::StatusOr<ordered_json> object = ParseStrictJsonInOrder(line.text);
    status = object.ok() ? ReadTextRequest(*object, request) : object.status();
  }
  if (status.ok()) {
    absl::StatusOr<std::string> answer = Answer(model, request);
    if (answer.ok()) return *std::move(answer);
    status = answer.status();
  }
  failed = true;
  return ErrorToJson(request.id, absl::Status(status.code(), absl::StrCat("line ", line.number,
                                                                          ": ", status.message())));
}

ExitCode Fail(const absl::Status& status, ExitCode code = kExitUnusable) {
  LogError(status);
  return code;
}

ExitCode RunTokenize(const TokenizeOptions& options) {
  if (const ExitCode code = SetUpLog(options.model); code != kExitOk) return code;
  absl::StatusOr<LineReader> input = LineReader::Open(options.input, kMaxRequestBytes);
  if (!input.ok()) return Fail(input.status());
  absl::StatusOr<OutputFile> output = OutputFile::Open(options.output);
  if (!output.ok()) return Fail(output.status());
  if (output->IsSameFileAs(input->fd())) {
    return Fail(absl::InvalidArgumentError(
                    absl::StrCat(options.output, " is the input and can't be the output")),
                kExitWrongUse);
  }
  const absl::StatusOr<TextModel> model = LoadTextModel(options.model.model);
  if (!model.ok()) return Fail(model.status());
  if (const absl::Status status = output->Truncate(0); !status.ok()) return Fail(status);

  bool failed = false;
  while (true) {
    std::string answers;
    while (const std::optional<Line> line = input->Next()) {
      answers += AnswerLine(*model, *line, failed) + "\n";
    }
    if (!answers.empty()) {
      if (const absl::Status status = output->Append(answers); !status.ok()) return Fail(status);
    }
    if (input->at_end()) break;
    if (const absl::Status status = input->Fill(); !status.ok()) return Fail(status);
  }
  if (const absl::Status status = output->Sync(); !status.ok()) return Fail(status);
  return failed ? kExitFailed : kExitOk;
}

}  // namespace

Command AddTokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "tokenize",
      "Token ids of texts and conversations: {\"text\"} or {\"messages\", \"tools\", "
      "\"chat_template_kwargs\", \"add_generation_prompt\"} a line in, {\"ids\", \"pieces\", "
      "\"text\"} a line out. "
      "Needs the model's vocabulary only.");
  const auto options = std::make_shared<TokenizeOptions>();
  command->add_option("input", options->input, "IN.jsonl; - is standard input")->required();
  command->add_option("-o,--output", options->output, "OUT.jsonl; - is standard output")
      ->capture_default_str();
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunTokenize(*options); }};
}

}  // namespace isobit
