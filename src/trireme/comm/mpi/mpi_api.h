// MPI's C interface, with its error codes turned into exceptions.
#pragma once
#include <mpi.h>
#include <string>

#include "trireme/comm/message.h"

namespace trireme::comm {

/// What an MPI error code means, in MPI's own words.
std::string mpi_error_text(int code);

/// Throws InternalError, with MPI's words for it, unless `code` is MPI_SUCCESS. `call`
/// is the function's name.
void check_mpi(int code, const char* call);

/// The tags of a group's communicator: one for what collectives send from rank to rank,
/// and two a channel, for its messages and for the credit that comes back. They are
/// kept apart from MPI's own collectives by MPI itself.
inline constexpr int kCollectiveTag = 0;
constexpr int message_tag(int channel) {
  return 2 * channel + 1;
}
constexpr int credit_tag(int channel) {
  return 2 * channel + 2;
}
/// The highest tag of a channel if `highest` is MPI's highest tag.
constexpr int highest_channel(int highest) {
  return (highest - 2) / 2;
}

/// Messages travel as blocks of kMessageAlignment bytes, into which they are padded
/// anyway: MPI counts with an int, which as bytes would end at 2 GiB.
constexpr int message_blocks(size_t bytes) {
  return static_cast<int>(bytes / kMessageAlignment);
}

}  // namespace trireme::comm
