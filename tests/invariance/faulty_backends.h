#ifndef ISOBIT_TESTS_INVARIANCE_FAULTY_BACKENDS_H_
#define ISOBIT_TESTS_INVARIANCE_FAULTY_BACKENDS_H_

// Backends with one fault each, of a kind that real engines have had: what the proofs must catch.
// In all else they are the reference backend.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace isobit {

struct Fault {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
  std::string operation;  // part of the names of the sweeps that must fail, and no others
  // Whether it shows in a model's outputs, where most differences of order are rounded away.
  bool shows_in_model;
};

// Faults that depend on the batch, on memory that is not the request's, or on its place.
std::vector<Fault> Faults();

// For parametrised tests.
std::string FaultName(const testing::TestParamInfo<Fault>& param);

}  // namespace isobit

#endif  // ISOBIT_TESTS_INVARIANCE_FAULTY_BACKENDS_H_
