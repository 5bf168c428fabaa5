#include "trireme/comm/mpi/mpi_api.h"

#include <array>

#include "trireme/core/error.h"

namespace trireme::comm {

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  if (MPI_Error_string(code, words.data(), &length) != MPI_SUCCESS)
    return text("MPI error ", code);
  return std::string(words.data(), static_cast<size_t>(length));
}

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    throw InternalError(text(
        "[comm] expected ",
        call,
        " to succeed, got: ",
        mpi_error_text(code),
        "; see the output of the other ranks and of mpirun"));
}

}  // namespace trireme::comm
