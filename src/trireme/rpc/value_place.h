// Where a worker keeps a value that others may refer to.
#pragma once
#include <exception>
#include <memory>
#include <shared_mutex>
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
  /// The type itself: several may have one name on their way, as int and std::int64_t.
  const std::type_info* type = nullptr;
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
    ValueType made{.name = kept_name<T>(), .type = &typeid(T)};
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
  /// Held while the value is read for another worker; null for one that nobody changes,
  /// or whose owner sees to it that nobody reads it meanwhile.
  std::shared_ptr<std::shared_mutex> guard{};
  /// The function that has made it for another worker; empty for one of its owner's.
  std::string made_by{};
};

/// What is kept, for people: "a ps::Net by make_net".
std::string words_of(const KeptValue& kept);

/// The place of a value, which may still have to be made: the cargo of a reference on
/// its owner.
class ValuePlace {
 public:
  ValuePlace() : future_(promise_.future()) {}
  void set(KeptValue value) {
    TRIREME_ASSERT(value.value && value.type);
    promise_.set_value(std::move(value));
  }
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

[[noreturn]] void refuse_type(const ValueType& expected, const ValueType& got);

/// The value as the T that it is; InvalidArgument if it is none.
template <class T>
std::shared_ptr<T> value_as(const KeptValue& kept) {
  // One type may have two tables, in two libraries of one program.
  if (kept.type != &value_type<T>() && *kept.type->type != typeid(T))
    refuse_type(value_type<T>(), *kept.type);
  return std::static_pointer_cast<T>(kept.value);
}

/// A copy of the value, from any type of the same name: as it comes to other workers.
template <class T>
T copy_as(const KeptValue& kept) {
  if constexpr (Travels<T>)
    if (*kept.type->type != typeid(T) && kept.type->write != nullptr &&
        kept.type->name == value_type<T>().name) {
      ValueWriter writer;
      kept.type->write(writer, kept.value.get());
      const Values values = writer.take();
      ValueReader reader(values, "a value of this worker");
      return read_value<T>(reader);
    }
  return *value_as<T>(kept);
}

}  // namespace trireme::rpc
