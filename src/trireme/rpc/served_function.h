// A function that other workers may call, without its type.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/rpc/executor.h"
#include "trireme/rpc/signature.h"
#include "trireme/rpc/small_function.h"
#include "trireme/rpc/value_place.h"

namespace trireme::rpc {

/// What a function has given: in its wire form, or for a call that wants it kept, the
/// value itself. Both, where it gives the wire form of a value that stays here.
struct Returned {
  Values values;
  KeptValue kept;
};

/// Copies the tensors of a value that stays here, as they are at one moment: they may
/// change while they are on their way. Gradients do not lead through the copies.
void copy_live_tensors(Returned& returned);

/// Takes the end of one call: a value or an error, once. One that goes without, is
/// itself an error.
class Answer {
 public:
  using Take = SmallFunction<void(Returned returned, std::exception_ptr error)>;
  explicit Answer(Take take) : take_(std::move(take)) {}
  Answer(Answer&&) noexcept = default;
  Answer& operator=(Answer&&) = delete;
  ~Answer();

  void give(Returned returned) { end(std::move(returned), nullptr); }
  void fail(std::exception_ptr error) { end({}, std::move(error)); }

 private:
  void end(Returned returned, std::exception_ptr error);
  Take take_;
};

/// How a function may be called.
struct FunctionOptions {
  /// The roles of workers that may call it; empty for all.
  std::vector<std::string> roles;
  /// It takes a few microseconds and never waits: it runs on the thread that receives,
  /// which saves a change of threads and holds up all other messages.
  bool quick = false;
};

/// Goes on with this_call(), which has waited for something: on a thread of its agent,
/// as who brings that has other things to do; here, if there is none. Once in a call.
void resume_call(Task task);

struct ServedFunction {
  std::string name;
  Signature signature;
  FunctionOptions options;
  /// Runs it; `keep` for a call whose result stays here.
  std::function<void(const Values& arguments, bool keep, Answer answer)> run;
};

}  // namespace trireme::rpc
