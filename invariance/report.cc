#include "invariance/report.h"

#include <algorithm>

namespace isobit {

bool CheckReport::ok() const { return !rows.empty() && std::ranges::all_of(rows, &CheckRow::ok); }

}  // namespace isobit
