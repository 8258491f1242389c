/* The C interface from C99: compiled with -std=c99 -pedantic, so a header that needs more does not
   get here. usage: c99_test MODEL */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isobit.h"

static int checks = 0;

#define CHECK(condition)                                                             \
  do {                                                                               \
    ++checks;                                                                        \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
              isobit_error_message());                                               \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

enum { kTokens = 24 };

typedef struct stream {
  int32_t ids[kTokens];
  float logprobs[kTokens];
  size_t count;
  size_t abort_after; /* 0: never */
  char text[1024];
  size_t text_length;
  int done;
} stream;

static int32_t on_token(const isobit_token* token, void* user_data) {
  stream* s = user_data;
  if (s->count == kTokens || s->text_length + token->text_length > sizeof(s->text)) return 1;
  s->ids[s->count] = token->token_id;
  s->logprobs[s->count] = token->has_logprob ? token->logprob : 1;
  memcpy(s->text + s->text_length, token->text, token->text_length);
  s->text_length += token->text_length;
  ++s->count;
  return s->count == s->abort_after;
}

static void on_done(void* user_data) { ((stream*)user_data)->done += 1; }

static void test_text(isobit_engine* engine) {
  static const char kText[] = "hello there";
  int32_t ids[64];
  char text[64];
  size_t count = 0, length = 0;
  const int32_t flags = ISOBIT_ADD_SPECIAL | ISOBIT_PARSE_SPECIAL;
  CHECK(isobit_tokenize(engine, kText, strlen(kText), flags, NULL, 0, &count) ==
        ISOBIT_BUFFER_TOO_SMALL);
  CHECK(count > 0 && count < 64);
  const size_t needed = count;
  CHECK(isobit_tokenize(engine, kText, strlen(kText), flags, ids, 64, &count) == ISOBIT_OK);
  CHECK(count == needed);
  CHECK(isobit_detokenize(engine, ids, count, 0, text, sizeof(text), &length) == ISOBIT_OK);
  CHECK(length == strlen(kText) && strcmp(text, kText) == 0);
  /* Room for the text but not for its NUL. */
  CHECK(isobit_detokenize(engine, ids, count, 0, text, length, &length) == ISOBIT_BUFFER_TOO_SMALL);
  CHECK(isobit_tokenize(engine, kText, strlen(kText), 64, ids, 64, &count) ==
        ISOBIT_INVALID_ARGUMENT);
  CHECK(isobit_tokenize(engine, "", 0, 0, ids, 64, &count) == ISOBIT_OK && count == 0);
}

static isobit_request* submit(isobit_engine* engine, stream* s, int64_t max_tokens) {
  static const int32_t kPrompt[] = {104, 101, 108, 108, 111};
  isobit_sampling_params sampling;
  isobit_request_params params;
  isobit_request* request = NULL;
  isobit_sampling_params_init(&sampling, sizeof(sampling));
  sampling.max_tokens = max_tokens;
  sampling.has_seed = 1;
  sampling.seed = 7;
  sampling.ignore_eos = 1;
  sampling.logprobs = 2;
  isobit_request_params_init(&params, sizeof(params));
  params.id = "c99";
  params.token_ids = kPrompt;
  params.token_id_count = sizeof(kPrompt) / sizeof(kPrompt[0]);
  params.sampling = &sampling;
  params.on_token = on_token;
  params.on_done = on_done;
  params.user_data = s;
  params.receipt = 1;
  CHECK(isobit_submit(engine, &params, &request) == ISOBIT_OK);
  CHECK(request != NULL);
  return request;
}

static void test_score(isobit_engine* engine, const isobit_completion* completion) {
  int32_t ids[64];
  float logprobs[64], scored[64];
  size_t prompt = 0, output = 0, count = 0;
  CHECK(isobit_completion_prompt_token_ids(completion, ids, 64, &prompt) == ISOBIT_OK);
  CHECK(isobit_completion_token_ids(completion, 0, ids + prompt, 64 - prompt, &output) ==
        ISOBIT_OK);
  CHECK(isobit_completion_logprobs(completion, 0, logprobs, 64, &count) == ISOBIT_OK);
  CHECK(count == output && output == kTokens);
  CHECK(isobit_score(engine, ids, prompt + output, scored, 64, &count) == ISOBIT_OK);
  CHECK(count == prompt + output - 1);
  CHECK(memcmp(scored + prompt - 1, logprobs, output * sizeof(float)) == 0);
  CHECK(isobit_score(engine, ids, prompt + output, scored, 3, &count) == ISOBIT_BUFFER_TOO_SMALL);
  CHECK(count == prompt + output - 1);
}

static void test_receipt(isobit_engine* engine, const isobit_completion* completion) {
  size_t length = 0;
  CHECK(isobit_completion_receipt(completion, NULL, 0, &length) == ISOBIT_BUFFER_TOO_SMALL);
  char* receipt = malloc(length + 1);
  CHECK(receipt != NULL);
  CHECK(isobit_completion_receipt(completion, receipt, length + 1, &length) == ISOBIT_OK);
  CHECK(isobit_replay(engine, receipt, length) == ISOBIT_OK);
  /* Another seed: the same request it is not. */
  char* seed = strstr(receipt, "\"seed\":7");
  CHECK(seed != NULL);
  seed[7] = '8';
  CHECK(isobit_replay(engine, receipt, length) == ISOBIT_DIFFERENT);
  CHECK(strstr(isobit_error_message(), "recorded") != NULL);
  CHECK(isobit_replay(engine, "{}", 2) == ISOBIT_INVALID_ARGUMENT);
  free(receipt);
}

static void test_request(isobit_engine* engine) {
  stream s = {0};
  isobit_request* request = submit(engine, &s, kTokens);
  isobit_completion* completion = NULL;
  isobit_completion* again = NULL;
  CHECK(isobit_request_wait(request, -1, &completion) == ISOBIT_OK);
  CHECK(isobit_request_wait(request, 0, &again) == ISOBIT_OK);
  isobit_completion_info info, same;
  isobit_choice_info choice;
  CHECK(isobit_completion_get_info(completion, &info, sizeof(info)) == ISOBIT_OK);
  CHECK(isobit_completion_get_info(again, &same, sizeof(same)) == ISOBIT_OK);
  CHECK(strlen(info.digest) == 32 && strcmp(info.digest, same.digest) == 0);
  CHECK(info.has_seed && info.seed == 7 && info.choice_count == 1 && info.has_receipt);
  CHECK(isobit_completion_get_choice(completion, 0, &choice, sizeof(choice)) == ISOBIT_OK);
  CHECK(choice.finish_reason == ISOBIT_FINISH_LENGTH && choice.token_count == kTokens);
  CHECK(isobit_completion_get_choice(completion, 1, &choice, sizeof(choice)) ==
        ISOBIT_INVALID_ARGUMENT);

  isobit_token_logprob top[2];
  size_t count = 0;
  CHECK(isobit_completion_top_logprobs(completion, 0, 3, top, 2, &count) == ISOBIT_OK);
  CHECK(count == 2 && top[0].logprob >= top[1].logprob);
  CHECK(isobit_completion_prompt_logprobs(completion, NULL, 0, &count) ==
        ISOBIT_FAILED_PRECONDITION);

  test_score(engine, completion);
  test_receipt(engine, completion);
  isobit_request_free(request);
  /* What was streamed is what was completed; completions outlive their request. */
  int32_t ids[kTokens];
  float logprobs[kTokens];
  CHECK(s.count == kTokens && s.done == 1);
  CHECK(isobit_completion_token_ids(completion, 0, ids, kTokens, &count) == ISOBIT_OK);
  CHECK(isobit_completion_logprobs(completion, 0, logprobs, kTokens, &count) == ISOBIT_OK);
  CHECK(memcmp(ids, s.ids, sizeof(ids)) == 0);
  CHECK(memcmp(logprobs, s.logprobs, sizeof(logprobs)) == 0);
  isobit_completion_free(again);
  isobit_completion_free(completion);
}

static void test_abort(isobit_engine* engine) {
  stream s = {0};
  s.abort_after = 3;
  isobit_request* request = submit(engine, &s, 2000);
  isobit_completion* completion = NULL;
  isobit_choice_info choice;
  CHECK(isobit_request_wait(request, -1, &completion) == ISOBIT_OK);
  CHECK(isobit_completion_get_choice(completion, 0, &choice, sizeof(choice)) == ISOBIT_OK);
  CHECK(choice.finish_reason == ISOBIT_FINISH_CANCELLED);
  CHECK(choice.token_count >= 3 && choice.token_count < 2000);
  CHECK(isobit_completion_receipt(completion, NULL, 0, NULL) == ISOBIT_FAILED_PRECONDITION);
  isobit_completion_free(completion);
  isobit_request_free(request);
  CHECK(s.count == 3 && s.done == 1);
}

static void test_errors(isobit_engine* engine) {
  isobit_engine* none = NULL;
  isobit_request* request = NULL;
  isobit_request_params params;
  CHECK(isobit_engine_load("/no/such/model.gguf", NULL, &none) == ISOBIT_NOT_FOUND);
  CHECK(none == NULL && strstr(isobit_error_message(), "/no/such/model.gguf") != NULL);
  CHECK(isobit_submit(engine, NULL, &request) == ISOBIT_INVALID_ARGUMENT);
  isobit_request_params_init(&params, sizeof(params));
  CHECK(isobit_submit(engine, &params, &request) == ISOBIT_INVALID_ARGUMENT);
  params.text = "a";
  params.text_length = (size_t)-1;
  CHECK(isobit_submit(engine, &params, &request) == ISOBIT_INVALID_ARGUMENT);
  CHECK(request == NULL);
  CHECK(strcmp(isobit_status_name(ISOBIT_INVALID_ARGUMENT), "INVALID_ARGUMENT") == 0);
  CHECK(strcmp(isobit_status_name(-5), "UNKNOWN") == 0);
  isobit_engine_free(NULL);
  isobit_request_free(NULL);
  isobit_completion_free(NULL);
}

int main(int argc, char** argv) {
  isobit_engine_params params;
  isobit_engine_info info;
  isobit_engine* engine = NULL;
  if (argc != 2) return 2;
  CHECK(isobit_abi_version() == ISOBIT_ABI_VERSION);
  isobit_engine_params_init(&params, sizeof(params));
  params.device = "cpu";
  params.threads = 1;
  CHECK(isobit_engine_load(argv[1], &params, &engine) == ISOBIT_OK);
  CHECK(isobit_engine_get_info(engine, &info, sizeof(info)) == ISOBIT_OK);
  CHECK(strlen(info.model_digest) == 32 && strcmp(info.device, "cpu") == 0);
  test_text(engine);
  test_request(engine);
  test_abort(engine);
  test_errors(engine);
  isobit_engine_free(engine);
  printf("%d checks passed\n", checks);
  return 0;
}
