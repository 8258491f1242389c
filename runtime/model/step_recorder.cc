#include "runtime/model/step_recorder.h"

#include <algorithm>
#include <utility>

namespace isobit {

void StepRecorder::Run(const StepShape& shape, const std::function<void()>& issue) {
  ++runs_;
  Entry* entry = Find(shape);
  if (entry == nullptr) {
    Remember(shape);
    issue();
    return;
  }
  entry->last_used = runs_;
  if (Replay(*entry)) return;
  entry->recording = backend_.Record(issue);
  if (!Replay(*entry)) issue();
}

bool StepRecorder::Replay(const Entry& entry) {
  if (entry.recording == nullptr || !backend_.Replay(*entry.recording)) return false;
  ++replayed_;
  return true;
}

StepRecorder::Entry* StepRecorder::Find(const StepShape& shape) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.shape == shape; });
  return it == entries_.end() ? nullptr : &*it;
}

void StepRecorder::Remember(const StepShape& shape) {
  Entry entry = {.shape = shape, .recording = nullptr, .last_used = runs_};
  if (entries_.size() < kMaxShapes) {
    entries_.push_back(std::move(entry));
    return;
  }
  *std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.last_used < b.last_used;
  }) = std::move(entry);
}

}  // namespace isobit
