#ifndef ISOBIT_RUNTIME_TEXT_JINJA_SCOPE_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_SCOPE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// Names and their values in a block that has names of its own: the template, a round of a loop, a
// call of a macro.
class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}

  Scope* parent() const { return parent_; }
  const Value* Find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      if (const Value* value = scope->names_.Find(name)) return value;
    }
    return nullptr;
  }
  void Set(const std::string& name, Value value) { names_.Set(Value(name), std::move(value)); }

  // A macro that was defined here may be called when the block is left.
  void Keep() {
    for (Scope* scope = this; scope != nullptr; scope = scope->parent_) scope->is_kept_ = true;
  }
  bool is_kept() const { return is_kept_; }

 private:
  Scope* parent_;
  Map names_;
  bool is_kept_ = false;
};

// The scopes of a rendering, the innermost first.
class Scopes {
 public:
  Scopes() : innermost_(&root_) {}

  Scope& innermost() { return *innermost_; }

  // Opens a scope in `parent`, and closes it at the end of the C++ block; the innermost scope is
  // then what it was before.
  class Opened {
   public:
    Opened(Scopes& scopes, Scope* parent)
        : scopes_(scopes), before_(scopes.innermost_), scope_(std::make_unique<Scope>(parent)) {
      scopes_.innermost_ = scope_.get();
    }
    ~Opened() {
      scopes_.innermost_ = before_;
      if (scope_->is_kept()) scopes_.kept_.push_back(std::move(scope_));
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    Scopes& scopes_;
    Scope* before_;
    std::unique_ptr<Scope> scope_;
  };

 private:
  Scope root_{nullptr};
  Scope* innermost_;
  std::vector<std::unique_ptr<Scope>> kept_;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_SCOPE_H_
