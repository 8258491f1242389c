#ifndef ISOBIT_RUNTIME_RECEIPT_DIGEST_H_
#define ISOBIT_RUNTIME_RECEIPT_DIGEST_H_

// Digests: XXH3-128 over length-prefixed, typed fields (contract 7).
//
// Every field goes in as one byte of type, its length in bytes as 8 bytes little-endian, and its
// content: integers and float bits little-endian, text as UTF-8. So no two different lists of
// fields are the same bytes.
//
// Not thread-safe; a Digest is a value.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace isobit {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  friend bool operator==(const Digest&, const Digest&) = default;
  std::string ToHex() const;  // 32 lower-case digits, high half first
  // InvalidArgument unless `text` is 32 hexadecimal digits.
  static absl::StatusOr<Digest> FromHex(std::string_view text);
};

// The digest of one piece of memory, without fields around it.
Digest DigestBytes(const void* data, size_t bytes);

class DigestBuilder {
 public:
  DigestBuilder();
  ~DigestBuilder();
  DigestBuilder(const DigestBuilder&) = delete;
  DigestBuilder& operator=(const DigestBuilder&) = delete;

  DigestBuilder& Add(int64_t value);
  DigestBuilder& AddUnsigned(uint64_t value);
  DigestBuilder& Add(double value);
  DigestBuilder& AddBits(float value);
  DigestBuilder& Add(std::string_view text);
  DigestBuilder& Add(const Digest& digest);
  DigestBuilder& Add(std::span<const int32_t> ids);

  // The digest of all fields so far. More may follow.
  Digest Finish() const;

 private:
  void Field(char type, const void* data, size_t bytes);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_RECEIPT_DIGEST_H_
