#include "trireme/rpc/wire_struct.h"

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::rpc {

void expect_struct(ValueReader& reader, std::string_view name, int version) {
  const std::string_view got = reader.string();
  const std::uint32_t got_version = reader.bytes().u32();
  if (got != name)
    throw InvalidArgument(text(
        "[rpc] expected ",
        name,
        " version ",
        version,
        " in ",
        reader.what(),
        ", got ",
        in_quotes(got),
        "; both sides need the same version of the program"));
  if (got_version != static_cast<std::uint32_t>(version))
    throw InvalidArgument(text(
        "[rpc] expected ",
        name,
        " version ",
        version,
        " in ",
        reader.what(),
        ", got version ",
        got_version,
        "; build both sides from the same version of the program"));
}

}  // namespace trireme::rpc
