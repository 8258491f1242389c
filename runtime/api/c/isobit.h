#ifndef ISOBIT_H_
#define ISOBIT_H_

/*
  isobit: deterministic, batch-invariant inference of language models. The C interface (C99).

  Conventions

   1. Names. Everything begins with isobit_ or ISOBIT_. Functions of a handle take it first.
   2. Handles are opaque. What a function hands out through a pointer to a handle is freed with the
      function of its type, which takes NULL too. Until then it may be used from any thread, unless
      its comment says otherwise.
   3. Status. A function that can fail returns an isobit_status, ISOBIT_OK being 0. What went wrong,
      in words, is isobit_error_message() of the same thread until its next call that fails. After
      a failure nothing has been handed out and nothing has changed.
   4. Structs of parameters are passed by pointer and set to their defaults by their _init function,
      which takes sizeof of the struct as the caller was compiled with. Fields are only ever added,
      at the end: a program runs with a newer library as it is, and with an older one as long as it
      leaves alone what that does not know (otherwise ISOBIT_UNSUPPORTED). A pointer to parameters
      may be NULL where the comment says so: all defaults.
   5. Structs of results are filled by functions that take their sizeof, in the same way.
   6. Text is UTF-8, given as a pointer and a length in bytes. Only paths, names and stop strings
      end with NUL.
   7. Results of any length go to the caller's buffer: pointer, capacity, and a pointer to the
      count, which may be NULL. If the buffer is too small, nothing is written, the count is what
      it takes, and the status is ISOBIT_BUFFER_TOO_SMALL; so a call with NULL and 0 asks for the
      size. Text is followed by a NUL that the capacity, but not the count, includes.
   8. Callbacks come from a thread of the engine, one at a time. They must not block and must not
      call what waits: isobit_request_wait, isobit_request_free, isobit_score, isobit_replay,
      isobit_engine_update_weights, isobit_engine_free. Other functions are allowed. Pointers that
      they are given are valid during the call.
   9. Log-probabilities are natural logarithms in fp32. Their bits, like token ids, are a function
      of model and request alone. A token without probability has minus infinity.
  10. A digest is 32 lower-case hexadecimal digits and a NUL. Equal digests: the same model, prompt,
      parameters, ids and log-probability bits.
  11. No function ends the process, prints, installs a signal handler or throws.
*/

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ISOBIT_API __attribute__((visibility("default")))
#else
#define ISOBIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version and errors */

/* Of the functions and structs below. Grows only if a program would have to be changed. */
#define ISOBIT_ABI_VERSION 1

ISOBIT_API int32_t isobit_abi_version(void);
/* Of the library, "0.1.0". */
ISOBIT_API const char* isobit_version(void);
/* Of the numeric contract: another version may mean other bits. */
ISOBIT_API int32_t isobit_contract_version(void);

typedef int32_t isobit_status;
enum {
  ISOBIT_OK = 0,
  ISOBIT_INVALID_ARGUMENT = 1,    /* a parameter, a request or a file that can't be; it is named */
  ISOBIT_NOT_FOUND = 2,           /* a file that does not exist */
  ISOBIT_OUT_OF_RANGE = 3,        /* longer than the context */
  ISOBIT_RESOURCE_EXHAUSTED = 4,  /* does not fit in memory */
  ISOBIT_UNSUPPORTED = 5,         /* not proven to give the same bits, so refused */
  ISOBIT_FAILED_PRECONDITION = 6, /* not in this state, or not with this model */
  ISOBIT_BUFFER_TOO_SMALL = 7,
  ISOBIT_DIFFERENT = 8, /* a replay that gave other bits; the message is the first difference */
  ISOBIT_CANCELLED = 9, /* the engine was freed first */
  ISOBIT_TIMEOUT = 10,
  ISOBIT_INTERNAL = 11
};

/* "OK", "INVALID_ARGUMENT" ...; "UNKNOWN" for other numbers. */
ISOBIT_API const char* isobit_status_name(isobit_status status);
/* Of the last call in this thread that failed; "" if none did. Never NULL. */
ISOBIT_API const char* isobit_error_message(void);

#define ISOBIT_DIGEST_SIZE 33

/* ---- Engine: a model in memory and the thread that runs requests on it */

typedef struct isobit_engine isobit_engine;

typedef struct isobit_engine_params {
  size_t struct_size;
  const char* device;             /* "auto" (or NULL), "cpu", "cuda", "reference" (slow) */
  int64_t threads;                /* of the CPU; 0: one a core. No bit depends on it */
  int64_t max_model_len;          /* tokens of prompt and output together; 0: the model's */
  int64_t max_num_seqs;           /* sequences in one step; 0: by memory */
  int64_t max_num_batched_tokens; /* token budget of a step; 0: by device */
  int64_t block_size;             /* tokens a KV page, a multiple of 16; 32 */
  int64_t kv_cache_tokens;        /* size of the KV pool; 0: by memory */
  int32_t prefix_cache;           /* 1 */
  int32_t has_seed;               /* 0: a request that names no seed gets one from the system */
  uint64_t seed;                  /* of requests that name none */
} isobit_engine_params;

ISOBIT_API void isobit_engine_params_init(isobit_engine_params* params, size_t struct_size);

/* Reads a model file. `params` may be NULL. */
ISOBIT_API isobit_status isobit_engine_load(const char* path, const isobit_engine_params* params,
                                            isobit_engine** engine);

/* Ends what still runs: every request comes to its end first, and every callback with it. */
ISOBIT_API void isobit_engine_free(isobit_engine* engine);

/* Reads other weights of the same shape with the same tokenizer (else ISOBIT_INVALID_ARGUMENT), and
   has them serve whatever is submitted from then on; no cache survives. Requests that were submitted
   before finish on the old weights; the call, and requests that come meanwhile, wait for them. Both
   are in memory until then. If the new file can't be used, the old weights stay. */
ISOBIT_API isobit_status isobit_engine_update_weights(isobit_engine* engine, const char* path);

typedef struct isobit_engine_info {
  size_t struct_size;
  char model_digest[ISOBIT_DIGEST_SIZE]; /* of weights, configuration and tokenizer */
  char device[15];                       /* "cpu", "cuda", "reference" */
  int64_t vocab_size;
  int64_t max_model_len;
  int64_t max_num_seqs;
  int64_t max_num_batched_tokens;
  int64_t kv_cache_tokens;
  int64_t weight_bytes;
  int32_t bos_token_id; /* -1: none */
  int32_t eos_token_id;
} isobit_engine_info;

ISOBIT_API isobit_status isobit_engine_get_info(isobit_engine* engine, isobit_engine_info* info,
                                                size_t struct_size);

/* Since the engine was loaded. Depends on the schedule. */
typedef struct isobit_engine_stats {
  size_t struct_size;
  int64_t steps;
  int64_t waiting; /* sequences */
  int64_t running;
  int64_t preemptions;
  int64_t prompt_tokens; /* prefilled, recomputed ones included */
  int64_t cached_tokens; /* taken from the prefix cache instead */
  int64_t generated_tokens;
} isobit_engine_stats;

ISOBIT_API isobit_status isobit_engine_get_stats(isobit_engine* engine, isobit_engine_stats* stats,
                                                 size_t struct_size);

/* ---- Text */

enum {
  ISOBIT_ADD_SPECIAL = 1,   /* begin and end as the model's files say (BOS, EOS) */
  ISOBIT_PARSE_SPECIAL = 2, /* recognise special tokens that are written in the text */
  ISOBIT_KEEP_SPECIAL = 4   /* special tokens stand in decoded text */
};

/* Token ids of a text. `flags`: what a request with this text as its prompt would use is
   ISOBIT_ADD_SPECIAL | ISOBIT_PARSE_SPECIAL. */
ISOBIT_API isobit_status isobit_tokenize(isobit_engine* engine, const char* text,
                                         size_t text_length, int32_t flags, int32_t* token_ids,
                                         size_t capacity, size_t* count);

/* Text of token ids; bytes that are no UTF-8 become U+FFFD. `flags`: 0 or ISOBIT_KEEP_SPECIAL. */
ISOBIT_API isobit_status isobit_detokenize(isobit_engine* engine, const int32_t* token_ids,
                                           size_t token_count, int32_t flags, char* text,
                                           size_t capacity, size_t* text_length);

typedef struct isobit_message {
  const char* role; /* "system", "user", "assistant": ends with NUL */
  const char* content;
  size_t content_length;
} isobit_message;

/* The prompt text of a conversation by the model's chat template. To be tokenized with
   ISOBIT_PARSE_SPECIAL alone: a template writes BOS itself. isobit_render_conversation below knows
   tools too. */
ISOBIT_API isobit_status isobit_apply_chat_template(isobit_engine* engine,
                                                    const isobit_message* messages,
                                                    size_t message_count,
                                                    int32_t add_generation_prompt, char* text,
                                                    size_t capacity, size_t* text_length);

/* ---- Requests */

typedef struct isobit_logit_bias {
  int32_t token_id;
  float bias; /* in [-100, 100] */
} isobit_logit_bias;

enum {
  ISOBIT_LOGPROBS_RAW = 0,      /* of the logits as they left the model */
  ISOBIT_LOGPROBS_PROCESSED = 1 /* after penalties, temperature and filters */
};

/* Names, meanings and defaults are those of OpenAI's API and vLLM's. */
typedef struct isobit_sampling_params {
  size_t struct_size;
  int64_t max_tokens;        /* 16; 0 only scores the prompt */
  int64_t min_tokens;        /* 0 */
  double temperature;        /* 1; 0: greedy */
  int64_t top_k;             /* 0: off */
  double top_p;              /* 1 */
  double min_p;              /* 0 */
  int64_t n;                 /* 1: completions of the same prompt */
  double presence_penalty;   /* 0 */
  double frequency_penalty;  /* 0 */
  double repetition_penalty; /* 1 */
  uint64_t seed;             /* used if has_seed */
  int32_t has_seed;          /* 0: one is drawn, used and returned */
  int32_t ignore_eos;        /* 0 */
  int64_t logprobs;          /* -1: off; k: of each token and of the k most likely */
  int64_t prompt_logprobs;   /* -1: off; the same for the prompt, always raw */
  int32_t logprobs_mode;     /* ISOBIT_LOGPROBS_RAW */
  int32_t reserved;          /* 0 */
  const isobit_logit_bias* logit_bias;
  size_t logit_bias_count;
  const char* const* stop; /* texts that end a completion; each ends with NUL */
  size_t stop_count;
  const int32_t* stop_token_ids;
  size_t stop_token_id_count;
} isobit_sampling_params;

ISOBIT_API void isobit_sampling_params_init(isobit_sampling_params* params, size_t struct_size);

typedef struct isobit_token_logprob {
  int32_t token_id;
  float logprob;
} isobit_token_logprob;

/* One drawn token. */
typedef struct isobit_token {
  size_t struct_size;
  int32_t choice; /* 0 .. n - 1 */
  int32_t token_id;
  const char* text; /* what became final by this token: whole characters, or nothing */
  size_t text_length;
  float logprob; /* if has_logprob */
  int32_t has_logprob;
  const isobit_token_logprob* top; /* most likely first */
  size_t top_count;
} isobit_token;

/* Anything but 0 aborts the request: no more tokens are delivered, and it ends as cancelled. */
typedef int32_t (*isobit_on_token)(const isobit_token* token, void* user_data);
/* After the last token; from then on isobit_request_wait does not wait. Comes exactly once. */
typedef void (*isobit_on_done)(void* user_data);

/* The prompt is one of text, token_ids, messages and messages_json; the others are NULL. */
typedef struct isobit_request_params {
  size_t struct_size;
  const char* id; /* for people; may be NULL */
  const char* text;
  size_t text_length;
  const int32_t* token_ids;
  size_t token_id_count;
  const isobit_message* messages; /* through the model's chat template */
  size_t message_count;
  const isobit_sampling_params* sampling; /* may be NULL */
  isobit_on_token on_token;               /* may be NULL */
  isobit_on_done on_done;                 /* may be NULL */
  void* user_data;                        /* given to the callbacks */
  int32_t receipt;  /* 1: record what a receipt needs (turns on logprobs); changes no bit */
  int32_t reserved; /* 0 */
  /* Messages as the isobit command takes them, a JSON list: with tool_calls, parts of content and
     what else templates know. */
  const char* messages_json;
  size_t messages_json_length;
  /* With messages or messages_json, for the template; both may be NULL. */
  const char* tools; /* a JSON list of objects */
  size_t tools_length;
  const char* chat_template_kwargs; /* further variables: a JSON object */
  size_t chat_template_kwargs_length;
} isobit_request_params;

ISOBIT_API void isobit_request_params_init(isobit_request_params* params, size_t struct_size);

/* The prompt text of a request's conversation, with its tools and variables. No other field of
   `params` is looked at. isobit_submit has add_generation_prompt 1. */
ISOBIT_API isobit_status isobit_render_conversation(isobit_engine* engine,
                                                    const isobit_request_params* params,
                                                    int32_t add_generation_prompt, char* text,
                                                    size_t capacity, size_t* text_length);

typedef struct isobit_request isobit_request;
typedef struct isobit_completion isobit_completion;

/* Checks and queues a request; it has been copied when the call returns. Callbacks may come before
   that. What is wrong with a request is the status here. */
ISOBIT_API isobit_status isobit_submit(isobit_engine* engine, const isobit_request_params* params,
                                       isobit_request** request);

/* Waits for the end of a request, at most `timeout_ms` (0: only looks; negative: no limit), and
   hands out its completion; that is kept, so the call may be repeated. ISOBIT_TIMEOUT if it still
   runs. */
ISOBIT_API isobit_status isobit_request_wait(isobit_request* request, int64_t timeout_ms,
                                             isobit_completion** completion);

/* Ends a request early, soon: its completion has what was drawn so far. No effect after its end. */
ISOBIT_API void isobit_request_cancel(isobit_request* request);

/* Cancels a request that still runs, waits for its end and forgets it: no callback comes after. */
ISOBIT_API void isobit_request_free(isobit_request* request);

/* ---- Completions. Immutable; they outlive request and engine. */

ISOBIT_API void isobit_completion_free(isobit_completion* completion);

typedef struct isobit_completion_info {
  size_t struct_size;
  char digest[ISOBIT_DIGEST_SIZE];       /* covers all choices */
  char model_digest[ISOBIT_DIGEST_SIZE]; /* of the weights that it was made with */
  char padding[6];
  uint64_t seed;    /* if has_seed */
  int32_t has_seed; /* 0: greedy, nothing was drawn */
  int32_t choice_count;
  int64_t prompt_token_count;
  int64_t cached_tokens; /* from the prefix cache; depends on the schedule */
  int32_t has_prompt_logprobs;
  int32_t has_receipt;
} isobit_completion_info;

ISOBIT_API isobit_status isobit_completion_get_info(const isobit_completion* completion,
                                                    isobit_completion_info* info,
                                                    size_t struct_size);

enum { ISOBIT_FINISH_STOP = 0, ISOBIT_FINISH_LENGTH = 1, ISOBIT_FINISH_CANCELLED = 2 };

typedef struct isobit_choice_info {
  size_t struct_size;
  char digest[ISOBIT_DIGEST_SIZE];
  char padding[7];
  int32_t finish_reason; /* ISOBIT_FINISH_... */
  int32_t has_logprobs;
  int64_t token_count;
  int64_t text_length;
} isobit_choice_info;

ISOBIT_API isobit_status isobit_completion_get_choice(const isobit_completion* completion,
                                                      int32_t choice, isobit_choice_info* info,
                                                      size_t struct_size);

/* Without special tokens and without the stop string. */
ISOBIT_API isobit_status isobit_completion_text(const isobit_completion* completion, int32_t choice,
                                                char* text, size_t capacity, size_t* text_length);

/* All that were drawn, the end-of-sequence token included. */
ISOBIT_API isobit_status isobit_completion_token_ids(const isobit_completion* completion,
                                                     int32_t choice, int32_t* token_ids,
                                                     size_t capacity, size_t* count);

/* One a token. ISOBIT_FAILED_PRECONDITION unless asked for. */
ISOBIT_API isobit_status isobit_completion_logprobs(const isobit_completion* completion,
                                                    int32_t choice, float* logprobs,
                                                    size_t capacity, size_t* count);

/* The most likely tokens at one place of the output, most likely first. */
ISOBIT_API isobit_status isobit_completion_top_logprobs(const isobit_completion* completion,
                                                        int32_t choice, size_t position,
                                                        isobit_token_logprob* top, size_t capacity,
                                                        size_t* count);

ISOBIT_API isobit_status isobit_completion_prompt_token_ids(const isobit_completion* completion,
                                                            int32_t* token_ids, size_t capacity,
                                                            size_t* count);

/* Of prompt tokens 1, 2, ...: the first has none, so there is one less than tokens. */
ISOBIT_API isobit_status isobit_completion_prompt_logprobs(const isobit_completion* completion,
                                                           float* logprobs, size_t capacity,
                                                           size_t* count);

/* At prompt token `position` >= 1. */
ISOBIT_API isobit_status isobit_completion_prompt_top_logprobs(const isobit_completion* completion,
                                                               size_t position,
                                                               isobit_token_logprob* top,
                                                               size_t capacity, size_t* count);

/* One line of JSON, exactly what the isobit command answers. */
ISOBIT_API isobit_status isobit_completion_json(const isobit_completion* completion, char* json,
                                                size_t capacity, size_t* length);

/* All that it takes to run the request again, as JSON: what isobit_replay and `isobit replay` take.
   ISOBIT_FAILED_PRECONDITION unless the request asked for it, or if it was cancelled. */
ISOBIT_API isobit_status isobit_completion_receipt(const isobit_completion* completion, char* json,
                                                   size_t capacity, size_t* length);

/* ---- Proof */

/* Log-probabilities of tokens 1, 2, ... of a sequence given all before them, in one prefill: one
   less than tokens, and the bits that generating these tokens gave. Waits. */
ISOBIT_API isobit_status isobit_score(isobit_engine* engine, const int32_t* token_ids,
                                      size_t token_count, float* logprobs, size_t capacity,
                                      size_t* count);

/* Runs a recorded request again and compares every bit. ISOBIT_DIFFERENT with the first difference;
   ISOBIT_FAILED_PRECONDITION if the receipt is of another model or contract. Waits. */
ISOBIT_API isobit_status isobit_replay(isobit_engine* engine, const char* receipt,
                                       size_t receipt_length);

#ifdef __cplusplus
}
#endif

#endif /* ISOBIT_H_ */
