#include "trireme/comm/wire/wire_lanes.h"

#include "trireme/core/error.h"

namespace trireme::comm {

void refuse_open_lane(int peer, int tag) {
  throw InvalidArgument(text(
      "[comm] expected this end of the channel with rank ",
      peer,
      " and tag ",
      tag,
      " to be opened once, but it is open; share the Channel object, or use another "
      "tag"));
}

}  // namespace trireme::comm
