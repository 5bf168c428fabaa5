#include "trireme/dist_autograd/fault.h"

#include "trireme/core/error.h"
#include "trireme/rpc/remote_error.h"

namespace trireme::dist_autograd {

PassFault fault_of(const std::string& worker, const std::exception_ptr& error) {
  const rpc::Fault said = rpc::fault_of(error);
  PassFault fault{.worker = worker, .type = said.type, .text = said.text};
  try {
    std::rethrow_exception(error);
  } catch (const PeerError& gone) {
    fault.gone = gone.rank();
  } catch (const TimeoutError&) {
    fault.late = true;
  } catch (const rpc::RemoteError& remote) {
    fault.worker = remote.worker();
    fault.text = remote.text();
  } catch (...) {
    // All is said.
  }
  return fault;
}

void throw_fault(const PassFault& fault) {
  const std::string where = text(
      "[dist_autograd] expected a backward that all workers end well, got an error on "
      "worker ",
      fault.worker,
      ": ");
  constexpr const char* kRemedy = "; look there first";
  if (fault.gone >= 0)
    throw PeerError(static_cast<int>(fault.gone), where + fault.text + kRemedy);
  if (fault.late)
    throw TimeoutError(where + fault.text + kRemedy);
  throw rpc::RemoteError(
      "backward()", fault.worker, {.type = fault.type, .text = fault.text});
}

}  // namespace trireme::dist_autograd
