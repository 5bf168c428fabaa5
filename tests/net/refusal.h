// What a call was refused with, for tests of the store.
#pragma once
#include <string>

#include "trireme/core/error.h"

namespace trireme::net {

/// The text of the Kind that `call` throws; says so if it throws none.
template <class Kind = InvalidArgument, class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const Kind& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace trireme::net
