// What stands in `Config` for an engine that is not built in.
#pragma once

namespace bfpga {

struct AbsentEngine {};

}  // namespace bfpga
