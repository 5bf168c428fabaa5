#include "trireme/rpc/value_place.h"

#include <cstdlib>
#include <cxxabi.h>

namespace trireme::rpc {

std::string name_in_words(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> words(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? words.get() : type.name();
}

std::string words_of(const KeptValue& kept) {
  return text("a ", kept.type->name, kept.made_by.empty() ? "" : " by ", kept.made_by);
}

void refuse_type(const ValueType& expected, const ValueType& got) {
  const bool one_name = expected.name == got.name;
  throw InvalidArgument(text(
      "[rpc] expected a reference to a value of type ",
      one_name ? name_in_words(*expected.type) : expected.name,
      ", got one of type ",
      one_name ? name_in_words(*got.type) : got.name,
      one_name ? "; take the type that the function gives, or a copy by to_here()"
               : "; take the RRef of the type that the function gives"));
}

void expect_reachable(const Reference& reference) {
  if (!reference)
    throw InvalidArgument(
        "[rpc] expected a reference to a value, got an empty one; assign it what "
        "remote() returns first");
  if (reference->loss().happened())
    throw PeerError(
        reference->owner(),
        text(
            "[rpc] expected value ",
            to_string(reference->id()),
            " of worker ",
            reference->owner(),
            " to be there, got its loss (",
            reference->loss().why(),
            "); make it anew"));
}

std::shared_ptr<ValuePlace> place_of(const Reference& reference) {
  expect_reachable(reference);
  if (!reference->cargo())
    throw InvalidArgument(text(
        "[rpc] expected a reference to a value of this worker, got one of worker ",
        reference->owner(),
        "; call its owner"));
  return std::static_pointer_cast<ValuePlace>(reference->cargo());
}

}  // namespace trireme::rpc
