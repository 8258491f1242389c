#include "kernels/cuda/qualify_cublaslt.h"

#include <dlfcn.h>

#include <string>

namespace isobit::cuda {
namespace {

// The functions used, by the names that the library gives them.
struct Library {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config_get;
  bool complete = false;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

Library Open() {
  Library l = {};
  void* library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return l;
  l.complete = Find(library, "cublasLtCreate", &l.create) &&
               Find(library, "cublasLtDestroy", &l.destroy) &&
               Find(library, "cublasLtGetVersion", &l.version) &&
               Find(library, "cublasLtMatmul", &l.matmul) &&
               Find(library, "cublasLtMatmulDescCreate", &l.desc_create) &&
               Find(library, "cublasLtMatmulDescDestroy", &l.desc_destroy) &&
               Find(library, "cublasLtMatmulDescSetAttribute", &l.desc_set) &&
               Find(library, "cublasLtMatrixLayoutCreate", &l.layout_create) &&
               Find(library, "cublasLtMatrixLayoutDestroy", &l.layout_destroy) &&
               Find(library, "cublasLtMatmulPreferenceCreate", &l.preference_create) &&
               Find(library, "cublasLtMatmulPreferenceDestroy", &l.preference_destroy) &&
               Find(library, "cublasLtMatmulPreferenceSetAttribute", &l.preference_set) &&
               Find(library, "cublasLtMatmulAlgoGetHeuristic", &l.heuristic) &&
               Find(library, "cublasLtMatmulAlgoConfigGetAttribute", &l.config_get);
  return l;
}

const Library& Lt() {
  static const Library library = Open();
  return library;
}

constexpr float kOne = 1.0f;
constexpr float kZero = 0.0f;

}  // namespace

std::string CublasLtVersion() {
  if (!Lt().complete) return "";
  const size_t v = Lt().version();
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

// cuBLASLt is column-major: w is k x n, x is k x rows, y = w^T x is n x rows.
std::unique_ptr<CublasLtGemm> CublasLtGemm::Create(int64_t rows, int64_t n, int64_t k,
                                                   std::string* error) {
  if (!Lt().complete) {
    *error = "cuBLASLt was not found";
    return nullptr;
  }
  std::unique_ptr<CublasLtGemm> gemm(new CublasLtGemm());
  const cublasOperation_t transpose = CUBLAS_OP_T;
  const bool made =
      Lt().create(&gemm->handle_) == CUBLAS_STATUS_SUCCESS &&
      Lt().desc_create(&gemm->operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
          CUBLAS_STATUS_SUCCESS &&
      Lt().desc_set(gemm->operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof(transpose)) ==
          CUBLAS_STATUS_SUCCESS &&
      Lt().layout_create(&gemm->w_, CUDA_R_16BF, k, n, k) == CUBLAS_STATUS_SUCCESS &&
      Lt().layout_create(&gemm->x_, CUDA_R_16BF, k, rows, k) == CUBLAS_STATUS_SUCCESS &&
      Lt().layout_create(&gemm->y_, CUDA_R_16BF, n, rows, n) == CUBLAS_STATUS_SUCCESS;
  if (!made) {
    *error = "cuBLASLt refuses the shape";
    return nullptr;
  }
  return gemm;
}

CublasLtGemm::~CublasLtGemm() {
  if (y_ != nullptr) Lt().layout_destroy(y_);
  if (x_ != nullptr) Lt().layout_destroy(x_);
  if (w_ != nullptr) Lt().layout_destroy(w_);
  if (operation_ != nullptr) Lt().desc_destroy(operation_);
  if (handle_ != nullptr) Lt().destroy(handle_);
}

std::vector<CublasLtAlgorithm> CublasLtGemm::Heuristic(int count) const {
  cublasLtMatmulPreference_t preference = nullptr;
  if (Lt().preference_create(&preference) != CUBLAS_STATUS_SUCCESS) return {};
  Lt().preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                      sizeof(kWorkspaceBytes));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
  int found = 0;
  Lt().heuristic(handle_, operation_, w_, x_, y_, y_, preference, count, results.data(), &found);
  Lt().preference_destroy(preference);

  std::vector<CublasLtAlgorithm> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    CublasLtAlgorithm a;
    a.algorithm = result.algo;
    a.workspace_bytes = result.workspaceSize;
    size_t written = 0;
    Lt().config_get(&a.algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &a.split_k, sizeof(a.split_k),
                    &written);
    Lt().config_get(&a.algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &a.reduction_scheme,
                    sizeof(a.reduction_scheme), &written);
    algorithms.push_back(a);
  }
  return algorithms;
}

bool CublasLtGemm::Launch(const CublasLtAlgorithm& algorithm, const Bf16* x, const Bf16* w, Bf16* y,
                          void* workspace, cudaStream_t stream) const {
  return Lt().matmul(handle_, operation_, &kOne, w, w_, x, x_, &kZero, y, y_, y, y_,
                     &algorithm.algorithm, workspace, kWorkspaceBytes,
                     stream) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace isobit::cuda
