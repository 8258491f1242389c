#ifndef ISOBIT_TOOLS_ISOBIT_BATCH_RUN_H_
#define ISOBIT_TOOLS_ISOBIT_BATCH_RUN_H_

// Requests from a stream through the engine to a stream of answers, in the order of the requests.

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "runtime/engine/engine.h"
#include "tools/isobit/event.h"
#include "tools/isobit/line_reader.h"
#include "tools/isobit/output_file.h"
#include "tools/isobit/progress_bar.h"

namespace isobit {

struct BatchCounts {
  int64_t answered = 0;
  int64_t failed = 0;  // of these, errors
  int64_t generated_tokens = 0;
};

// One thread does everything but the model: it reads requests while there is room in the window,
// submits them, and writes answers as soon as all before them are written. Memory is bounded by the
// window, in requests and in bytes.
class BatchRun {
 public:
  // `receipts` is a folder, or empty. `progress` may be null.
  BatchRun(Engine& engine, LineReader& input, OutputFile& output, std::string receipts,
           ProgressBar* progress);
  // Cancels and waits for what is still running.
  ~BatchRun();

  // Until the input ends or an interrupt comes; then, what is complete is written and the rest is
  // given up. An error is one of reading or writing; what was written before it stands.
  absl::Status Run();

  const BatchCounts& counts() const { return counts_; }

 private:
  struct Pending;

  bool HasRoom() const;
  void Accept(Line line);
  absl::Status Submit(Request request, Pending& pending);
  bool IsFinished(const Pending& pending);
  absl::Status WriteFinished();
  absl::Status WriteReceiptOf(const Pending& pending);
  std::string AnswerOf(Pending& pending);
  void ReportProgress();
  void CancelAll();

  Engine& engine_;
  LineReader& input_;
  OutputFile& output_;
  const std::string receipts_;
  ProgressBar* const progress_;
  const size_t window_;

  Event finished_;    // raised by the engine's thread with every result
  std::mutex mutex_;  // guards whether a pending request has its result; once it has, it is ours
  std::deque<std::unique_ptr<Pending>> pending_;  // in order of the input
  size_t pending_bytes_ = 0;
  int64_t input_bytes_answered_ = 0;
  BatchCounts counts_;
};

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_BATCH_RUN_H_
