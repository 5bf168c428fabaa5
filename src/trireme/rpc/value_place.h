// Where a worker keeps a value that others may refer to.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "trireme/rpc/future.h"
#include "trireme/rpc/reference.h"
#include "trireme/rpc/wire_containers.h"
#include "trireme/rpc/wire_struct.h"

namespace trireme::rpc {

/// What is known of a kept value without its type.
struct ValueType {
  std::string name;
  /// Writes a value in its wire form; null where it has none, and stays where it is.
  void (*write)(ValueWriter& writer, const void* value) = nullptr;
};

/// A type's name as its program's compiler writes it: "ps::Net".
std::string name_in_words(const std::type_info& type);

/// The name of a type, be it one that travels or not.
template <class T>
std::string kept_name() {
  if constexpr (Travels<T>)
    return type_name<T>();
  else
    return name_in_words(typeid(T));
}

/// The type of a value that is kept; one for each T.
template <class T>
const ValueType& value_type() {
  static const ValueType type = [] {
    ValueType made{.name = kept_name<T>()};
    if constexpr (Travels<T>)
      made.write = [](ValueWriter& writer, const void* value) {
        write_value(writer, *static_cast<const T*>(value));
      };
    return made;
  }();
  return type;
}

/// A value with its type.
struct KeptValue {
  std::shared_ptr<void> value;
  const ValueType* type = nullptr;
};

/// The place of a value, which may still have to be made: the cargo of a reference on
/// its owner.
class ValuePlace {
 public:
  ValuePlace() : future_(promise_.future()) {}
  void set(KeptValue value) { promise_.set_value(std::move(value)); }
  void fail(std::exception_ptr error) { promise_.set_exception(std::move(error)); }
  /// The value, when it is there.
  const Future<KeptValue>& future() const { return future_; }

 private:
  Promise<KeptValue> promise_;
  Future<KeptValue> future_;
};

/// The place behind a reference on its owner. InvalidArgument on another worker and for
/// an empty reference; PeerError for a value that is lost.
std::shared_ptr<ValuePlace> place_of(const Reference& reference);

/// Throws PeerError if the value behind a reference is lost; InvalidArgument if it is
/// empty.
void expect_reachable(const Reference& reference);

/// The value as a T; InvalidArgument if it is none.
template <class T>
std::shared_ptr<T> value_as(const KeptValue& kept) {
  // Types of two libraries of one program may have one name and two tables.
  if (kept.type != &value_type<T>() && kept.type->name != value_type<T>().name)
    throw InvalidArgument(text(
        "[rpc] expected a reference to a value of type ",
        value_type<T>().name,
        ", got one of type ",
        kept.type->name,
        "; take the RRef of the type that the function gives"));
  return std::static_pointer_cast<T>(kept.value);
}

}  // namespace trireme::rpc
