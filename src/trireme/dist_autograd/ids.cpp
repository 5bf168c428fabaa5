#include "trireme/dist_autograd/ids.h"

#include <limits>

#include "trireme/core/error.h"

namespace trireme::dist_autograd {

std::string to_string(const ContextId& id) {
  return text(id.creator, '.', id.number);
}

void write_worker(rpc::ValueWriter& writer, rpc::WorkerId worker) {
  writer.bytes().u32(static_cast<std::uint32_t>(worker));
}

rpc::WorkerId read_worker(rpc::ValueReader& reader) {
  const std::uint32_t worker = reader.bytes().u32();
  if (worker > std::numeric_limits<rpc::WorkerId>::max())
    throw InvalidArgument(text(
        "[dist_autograd] expected the number of a worker in ",
        reader.what(),
        ", got ",
        worker,
        "; both sides need the same version of the program"));
  return static_cast<rpc::WorkerId>(worker);
}

}  // namespace trireme::dist_autograd

namespace trireme::rpc {

using dist_autograd::ContextId;
using dist_autograd::PassId;
using dist_autograd::read_worker;
using dist_autograd::SendId;
using dist_autograd::write_worker;

void WireType<ContextId>::write(ValueWriter& writer, const ContextId& id) {
  write_worker(writer, id.creator);
  writer.bytes().u64(id.number);
}

ContextId WireType<ContextId>::read(ValueReader& reader) {
  ContextId id;
  id.creator = read_worker(reader);
  id.number = reader.bytes().u64();
  return id;
}

void WireType<SendId>::write(ValueWriter& writer, const SendId& id) {
  write_worker(writer, id.call.caller);
  write_worker(writer, id.call.callee);
  writer.bytes().u64(id.call.ordinal).flag(id.answer);
}

SendId WireType<SendId>::read(ValueReader& reader) {
  SendId id;
  id.call.caller = read_worker(reader);
  id.call.callee = read_worker(reader);
  id.call.ordinal = reader.bytes().u64();
  id.answer = reader.bytes().flag();
  return id;
}

void WireType<PassId>::write(ValueWriter& writer, const PassId& id) {
  write_worker(writer, id.root);
  writer.bytes().u64(id.number);
}

PassId WireType<PassId>::read(ValueReader& reader) {
  PassId id;
  id.root = read_worker(reader);
  id.number = reader.bytes().u64();
  return id;
}

}  // namespace trireme::rpc
