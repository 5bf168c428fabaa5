// The picture for documents.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/draw.h"

namespace trireme::sched {
namespace {

constexpr double kRow = 26;       // pixels a rank
constexpr double kLabel = 64;     // for "rank 12"
constexpr double kTop = 34;       // for the title
constexpr double kBottom = 30;    // for the legend
constexpr double kShortest = 22;  // an action, while there is room
constexpr double kMostWide = 1600;

struct Look {
  ActionKind kind;
  const char* css;
  const char* legend;
};
constexpr Look kLooks[] = {
    {ActionKind::Forward, "f", "F forward"},
    {ActionKind::Backward, "b", "B backward"},
    {ActionKind::InputGrad, "i", "I input gradient"},
    {ActionKind::WeightGrad, "w", "W weight gradient"},
    {ActionKind::Overlap, "o", "F and B overlapped"}};

const char* css_of(ActionKind kind) {
  for (const Look& look : kLooks)
    if (look.kind == kind)
      return look.css;
  return "o";
}

constexpr const char* kStyle = R"(<style>
text{font:11px system-ui,sans-serif;fill:#222}
.t{font-size:14px;font-weight:600}
.m{font-size:9px;text-anchor:middle;dominant-baseline:central;fill:#111}
.z{fill:#e9e9ee}
.f{fill:#7fb2ee}.b{fill:#86cf94}.i{fill:#f2cc74}.w{fill:#d8a2e0}.o{fill:#c3c8d1}
rect{stroke:#fff;stroke-width:.6}
.bg{fill:#fff;stroke:none}
@media (prefers-color-scheme:dark){text{fill:#ddd}.m{fill:#111}.z{fill:#2b2d33}rect{stroke:#16181d}.bg{fill:#16181d}}
</style>
)";

std::string escape_xml(const std::string& raw) {
  std::string out;
  for (const char c : raw) {
    if (c == '<' || c == '>' || c == '&' || c == '"')
      out += text("&#", static_cast<int>(c), ";");
    else if (static_cast<unsigned char>(c) >= ' ')
      out += c;
  }
  return out;
}

class Picture {
 public:
  Picture(const Schedule& schedule, const Simulation& simulation)
      : schedule_(schedule), simulation_(simulation) {
    out_ << std::fixed << std::setprecision(2);
    const double makespan = simulation.makespan;
    if (makespan > 0)
      scale_ = std::min(makespan / shortest() * kShortest, kMostWide) / makespan;
  }

  std::string draw() {
    open();
    for (size_t rank = 0; rank < simulation_.timeline.size(); ++rank)
      draw_rank(rank);
    draw_legend();
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  // The least time that any action takes, in whatever unit.
  double shortest() const {
    double least = simulation_.makespan;
    for (const auto& list : simulation_.timeline)
      for (const Timed& timed : list)
        if (timed.end > timed.start)
          least = std::min(least, timed.end - timed.start);
    return least;
  }

  double bottom() const { return kTop + kRow * schedule_.ranks(); }

  void open() {
    const double width = std::max(kLabel + simulation_.makespan * scale_ + 12, 640.0);
    const double height = bottom() + kBottom;
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width
         << "\" height=\"" << height << "\" viewBox=\"0 0 " << width << " " << height
         << "\" role=\"img\">\n"
         << kStyle << "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n"
         << "<text class=\"t\" x=\"8\" y=\"20\">" << escape_xml(schedule_.name) << ", "
         << schedule_.ranks() << " ranks, " << schedule_.stages() << " stages, "
         << schedule_.microbatches << " microbatches: time "
         << text(simulation_.makespan) << ", bubble " << text(simulation_.wall_bubble)
         << "</text>\n";
  }

  void draw_rank(size_t rank) {
    const double y = kTop + kRow * static_cast<double>(rank);
    out_ << "<text x=\"8\" y=\"" << y + kRow * 0.65 << "\">rank " << rank
         << "</text>\n<rect class=\"z\" x=\"" << kLabel << "\" y=\"" << y + 2
         << "\" width=\"" << simulation_.makespan * scale_ << "\" height=\"" << kRow - 4
         << "\"/>\n";
    for (const Timed& timed : simulation_.timeline[rank])
      draw_action(timed, y);
  }

  void draw_action(const Timed& timed, double y) {
    const double x = kLabel + timed.start * scale_;
    const double width = (timed.end - timed.start) * scale_;
    out_ << "<g><title>" << to_string(timed.action) << " from " << text(timed.start)
         << " to " << text(timed.end) << "</title><rect class=\""
         << css_of(timed.action.kind()) << "\" x=\"" << x << "\" y=\"" << y + 2
         << "\" width=\"" << width << "\" height=\"" << kRow - 4 << "\"/>";
    // Which microbatch, where there is room for it.
    if (width >= 9)
      out_ << "<text class=\"m\" x=\"" << x + width / 2 << "\" y=\"" << y + kRow / 2
           << "\">" << timed.action.microbatch() << "</text>";
    out_ << "</g>\n";
  }

  void draw_legend() {
    double x = kLabel;
    for (const Look& look : kLooks) {
      const bool used = std::any_of(
          simulation_.timeline.begin(),
          simulation_.timeline.end(),
          [&](const auto& list) {
            return std::any_of(list.begin(), list.end(), [&](const Timed& timed) {
              return timed.action.kind() == look.kind;
            });
          });
      if (!used)
        continue;
      const double y = bottom() + 10;
      out_ << "<rect class=\"" << look.css << "\" x=\"" << x << "\" y=\"" << y
           << "\" width=\"12\" height=\"12\"/><text x=\"" << x + 17 << "\" y=\""
           << y + 10 << "\">" << look.legend << "</text>\n";
      x += 140;
    }
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  double scale_ = 1;
  std::ostringstream out_;
};

}  // namespace

std::string draw_svg(const Schedule& schedule, const Simulation& simulation) {
  return Picture(schedule, simulation).draw();
}

}  // namespace trireme::sched
