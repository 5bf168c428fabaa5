#include "trireme/rpc/remote_error.h"

#include <cxxabi.h>

#include "trireme/rpc/value_place.h"

namespace trireme::rpc {

Fault fault_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RemoteError& remote) {
    // Through a nested call: its own worker knows more than this one.
    return {
        .type = remote.type(),
        .text = text("(on worker ", remote.worker(), ") ", remote.text())};
  } catch (const std::exception& thrown) {
    return {.type = name_in_words(typeid(thrown)), .text = thrown.what()};
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    return {
        .type = type != nullptr ? name_in_words(*type) : "an unknown type",
        .text = "no std::exception, so it has no text"};
  }
}

}  // namespace trireme::rpc
