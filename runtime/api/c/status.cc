#include "runtime/api/c/status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/contract_version.h"

namespace isobit::c {
namespace {

thread_local std::string last_message;

isobit_status CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return ISOBIT_OK;
    case absl::StatusCode::kInvalidArgument:
      return ISOBIT_INVALID_ARGUMENT;
    case absl::StatusCode::kNotFound:
      return ISOBIT_NOT_FOUND;
    case absl::StatusCode::kOutOfRange:
      return ISOBIT_OUT_OF_RANGE;
    case absl::StatusCode::kResourceExhausted:
      return ISOBIT_RESOURCE_EXHAUSTED;
    case absl::StatusCode::kUnimplemented:
      return ISOBIT_UNSUPPORTED;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable:
      return ISOBIT_FAILED_PRECONDITION;
    case absl::StatusCode::kDataLoss:
      return ISOBIT_DIFFERENT;
    case absl::StatusCode::kCancelled:
      return ISOBIT_CANCELLED;
    case absl::StatusCode::kDeadlineExceeded:
      return ISOBIT_TIMEOUT;
    default:
      return ISOBIT_INTERNAL;
  }
}

}  // namespace

isobit_status Report(isobit_status code, const char* message) {
  try {
    last_message = message;
  } catch (const std::bad_alloc&) {
    last_message.clear();
  }
  return code;
}

isobit_status Report(const absl::Status& status) {
  if (status.ok()) return ISOBIT_OK;
  return Report(CodeOf(status.code()), std::string(status.message()).c_str());
}

absl::Status NotNull(const void* pointer, const char* name) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must not be NULL"));
}

}  // namespace isobit::c

int32_t isobit_abi_version(void) { return ISOBIT_ABI_VERSION; }

const char* isobit_version(void) { return ISOBIT_VERSION; }

int32_t isobit_contract_version(void) { return isobit::kContractVersion; }

const char* isobit_error_message(void) { return isobit::c::last_message.c_str(); }

const char* isobit_status_name(isobit_status status) {
  switch (status) {
    case ISOBIT_OK:
      return "OK";
    case ISOBIT_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case ISOBIT_NOT_FOUND:
      return "NOT_FOUND";
    case ISOBIT_OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case ISOBIT_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case ISOBIT_UNSUPPORTED:
      return "UNSUPPORTED";
    case ISOBIT_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case ISOBIT_BUFFER_TOO_SMALL:
      return "BUFFER_TOO_SMALL";
    case ISOBIT_DIFFERENT:
      return "DIFFERENT";
    case ISOBIT_CANCELLED:
      return "CANCELLED";
    case ISOBIT_TIMEOUT:
      return "TIMEOUT";
    case ISOBIT_INTERNAL:
      return "INTERNAL";
    default:
      return "UNKNOWN";
  }
}
