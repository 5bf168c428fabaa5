// How a worker begins a backward, and sees it through.
#include <algorithm>
#include <set>
#include <utility>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/dist_autograd/context.h"
#include "trireme/dist_autograd/messages.h"
#include "trireme/rpc/call_context.h"

namespace trireme::dist_autograd {
namespace {

autograd::edge_list edges_of(const std::vector<at::Tensor>& losses) {
  if (losses.empty())
    throw InvalidArgument(
        "[dist_autograd] expected at least one loss, got none; give what backward is "
        "to "
        "begin at");
  autograd::edge_list edges;
  for (const at::Tensor& loss : losses) {
    if (!loss.defined() || !loss.requires_grad() || loss.numel() != 1)
      throw InvalidArgument(text(
          "[dist_autograd] expected losses of one element that need a gradient, got ",
          !loss.defined()         ? "an undefined one"
          : !loss.requires_grad() ? "one that needs none"
                                  : text("one of shape ", loss.sizes()),
          " as number ",
          edges.size(),
          "; sum it up, and make it from parameters"));
    edges.push_back(torch::autograd::impl::gradient_edge(loss));
  }
  return edges;
}

autograd::variable_list ones_like(const std::vector<at::Tensor>& losses) {
  autograd::variable_list gradients;
  for (const at::Tensor& loss : losses)
    gradients.push_back(at::ones_like(loss, at::MemoryFormat::Preserve));
  return gradients;
}

// What all workers that have a part in it still wait for.
std::vector<std::string> waiting_anywhere(
    const ContextState& context, const Pass& pass) {
  std::vector<std::string> sends = pass.waiting();
  const auto core = context.core();
  std::set<rpc::WorkerId> asked{core->me().id};
  std::vector<rpc::WorkerId> to_ask = context.peers();
  while (!to_ask.empty()) {
    const rpc::WorkerId worker = to_ask.back();
    to_ask.pop_back();
    if (!asked.insert(worker).second)
      continue;
    try {
      const Waiting waiting =
          ask_waiting(core, worker, context.id(), pass.plan().id).get();
      sends.insert(sends.end(), waiting.sends.begin(), waiting.sends.end());
      to_ask.insert(to_ask.end(), waiting.peers.begin(), waiting.peers.end());
    } catch (const Error&) {
      sends.push_back(text(
          "whatever worker ", core->worker(worker).name, " does, which is silent"));
    }
  }
  return sends;
}

[[noreturn]] void throw_late(
    const ContextState& context, const Pass& pass, const BackwardOptions& options) {
  const auto waiting = waiting_anywhere(context, pass);
  throw TimeoutError(text(
      "[dist_autograd] expected a backward of context ",
      to_string(context.id()),
      " within ",
      pass.plan().deadline.allowed().count(),
      " ms, got no gradient for ",
      waiting.empty() ? "what is still being computed" : list_names(waiting),
      options.mode == Mode::Fast
          ? "; use each result in a loss, or take Mode::Exact, which looks what was "
            "used"
          : "; give it more time, or look what those workers do"));
}

// All that the pass has drawn in stops.
void give_up(const ContextState& context, Pass& pass, const PassFault& fault) {
  pass.fail(fault);
  pass.drop_graph();
  const auto core = context.core();
  for (const rpc::WorkerId peer : context.peers())
    if (peer != core->me().id)
      tell_failed(*core, peer, context.id(), pass.plan().id, fault);
}

void run(
    const ContextState& context,
    Pass& pass,
    autograd::edge_list roots,
    autograd::variable_list gradients,
    const BackwardOptions& options) {
  const Pass::Marks marks = pass.begin(std::move(roots));
  Route beginning;
  if (options.mode == Mode::Exact && options.static_graph) {
    beginning = pass.route();
    beginning.calls = context.calls();
    const std::uint64_t known = context.routes().number_of(beginning);
    pass.take_route(known != 0 ? known : context.routes().next(), known != 0);
  }
  if (options.mode == Mode::Fast) {
    pass.mark_all();
  } else if (pass.plan().follows) {
    pass.follow();
  } else {
    const auto marked = send_marks(context, pass.plan(), marks);
    if (!marked.wait(pass.plan().deadline))
      throw_late(context, pass, options);
    if (const Answer& answer = marked.get())
      throw_fault(*answer);
  }
  if (!pass.drive(std::move(gradients)))
    throw_late(context, pass, options);
  if (pass.plan().route != 0 && !pass.plan().follows)
    context.routes().keep(std::move(beginning), pass.plan().route);
}

}  // namespace

void ContextView::backward(
    const std::vector<at::Tensor>& losses, const BackwardOptions& options) const {
  autograd::edge_list roots = edges_of(losses);
  const auto core = state_->core();
  const auto contexts = std::static_pointer_cast<Contexts>(core->options().escort);
  const auto pass = state_->pass(
      {.id = {core->me().id, contexts->next_pass()},
       .keep_graph = options.keep_graph,
       .exact = options.mode == Mode::Exact,
       .deadline = rpc::nested_deadline(Deadline::after(options.timeout))});
  try {
    run(*state_, *pass, std::move(roots), ones_like(losses), options);
  } catch (...) {
    if (pass->plan().follows)
      state_->routes().drop(pass->plan().route);
    give_up(*state_, *pass, fault_of(core->me().name, std::current_exception()));
    throw;
  }
}

}  // namespace trireme::dist_autograd
