#include "runtime/receipt/digest.h"

#include <xxhash.h>

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace isobit {
namespace {

Digest FromXxh(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

}  // namespace

static_assert(std::endian::native == std::endian::little,
              "fields are hashed as they lie in memory");

std::string Digest::ToHex() const { return absl::StrFormat("%016x%016x", high, low); }

absl::StatusOr<Digest> Digest::FromHex(std::string_view text) {
  Digest digest;
  if (text.size() != 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("a digest has 32 hexadecimal digits, got ", text.size(), " characters"));
  }
  for (size_t i = 0; i < 32; ++i) {
    const char c = text[i];
    uint64_t digit;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return absl::InvalidArgumentError("a digest has 32 lower-case hexadecimal digits");
    }
    uint64_t& half = i < 16 ? digest.high : digest.low;
    half = half << 4 | digit;
  }
  return digest;
}

Digest DigestBytes(const void* data, size_t bytes) { return FromXxh(XXH3_128bits(data, bytes)); }

struct DigestBuilder::State {
  State() : xxh(XXH3_createState()) {}
  ~State() { XXH3_freeState(xxh); }

  XXH3_state_t* const xxh;
};

DigestBuilder::DigestBuilder() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh);
}

DigestBuilder::~DigestBuilder() = default;

void DigestBuilder::Field(char type, const void* data, size_t bytes) {
  const uint64_t length = bytes;
  XXH3_128bits_update(state_->xxh, &type, 1);
  XXH3_128bits_update(state_->xxh, &length, sizeof(length));
  XXH3_128bits_update(state_->xxh, data, bytes);
}

DigestBuilder& DigestBuilder::Add(int64_t value) {
  Field('i', &value, sizeof(value));
  return *this;
}

DigestBuilder& DigestBuilder::AddUnsigned(uint64_t value) {
  Field('u', &value, sizeof(value));
  return *this;
}

DigestBuilder& DigestBuilder::Add(double value) {
  Field('d', &value, sizeof(value));
  return *this;
}

DigestBuilder& DigestBuilder::AddBits(float value) {
  Field('f', &value, sizeof(value));
  return *this;
}

DigestBuilder& DigestBuilder::Add(std::string_view text) {
  Field('s', text.data(), text.size());
  return *this;
}

DigestBuilder& DigestBuilder::Add(const Digest& digest) {
  const uint64_t halves[2] = {digest.low, digest.high};
  Field('h', halves, sizeof(halves));
  return *this;
}

DigestBuilder& DigestBuilder::Add(std::span<const int32_t> ids) {
  Field('t', ids.data(), ids.size_bytes());
  return *this;
}

Digest DigestBuilder::Finish() const { return FromXxh(XXH3_128bits_digest(state_->xxh)); }

}  // namespace isobit
