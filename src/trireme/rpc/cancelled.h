// The error of what nobody wants any more.
#pragma once
#include "trireme/core/error.h"

namespace trireme::rpc {

/// The caller has cancelled: what its future holds then, and what work that looks at
/// its CancelToken is stopped by.
class Cancelled : public Error {
 public:
  using Error::Error;
};

}  // namespace trireme::rpc
