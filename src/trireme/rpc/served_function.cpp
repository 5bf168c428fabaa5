#include "trireme/rpc/served_function.h"

#include "trireme/core/error.h"

namespace trireme::rpc {

Answer::~Answer() {
  if (take_)
    end({},
        std::make_exception_ptr(Error(
            "[rpc] expected a function to end with a value or an error, got neither; "
            "look why it was dropped")));
}

void Answer::end(Returned returned, std::exception_ptr error) {
  TRIREME_ASSERT(take_);
  Take take = std::move(take_);
  take(std::move(returned), std::move(error));
}

}  // namespace trireme::rpc
