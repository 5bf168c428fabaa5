// Values on their way and back, for tests.
#pragma once
#include <string>
#include <utility>

#include "trireme/rpc/wire_type.h"

namespace trireme::rpc {

template <class T>
Values written(const T& value) {
  ValueWriter writer;
  write_value(writer, value);
  return writer.take();
}

/// The only value that was written.
template <class T>
T read_whole(const Values& values) {
  ValueReader reader(values, "a test");
  T value = read_value<T>(reader);
  reader.expect_end();
  return value;
}

/// What arrives of a value; `Out` is its type on the other side.
template <class Out, class In>
Out arrives_as(const In& value) {
  return read_whole<Out>(written(value));
}

template <class T>
T trip(const T& value) {
  return arrives_as<T>(value);
}

/// A reference that nobody else knows.
inline Reference lone_reference(std::uint64_t number) {
  return Reference(std::make_shared<Hold>(
      Hold::Facts{.id = {.creator = 1, .number = number}, .loss = nullptr},
      std::make_shared<Releases>()));
}

}  // namespace trireme::rpc
