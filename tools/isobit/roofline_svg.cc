#include "tools/isobit/roofline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace isobit {
namespace {

constexpr double kWidth = 1120, kHeight = 560;
constexpr double kLeft = 96, kTop = 70, kPlotWidth = 520, kPlotHeight = 400;
constexpr double kBarsLeft = 840, kBarsWidth = 220;
constexpr std::array<const char*, 8> kColours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                                 "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

std::string Text(double x, double y, const std::string& text, const char* anchor = "start",
                 int size = 13) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, size,
      anchor, Escaped(text));
}

std::string Line(double x1, double y1, double x2, double y2, const char* style) {
  return absl::StrFormat("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2,
                         y2, style);
}

// A logarithmic axis over whole decades.
class Axis {
 public:
  Axis(double low, double high, double begin, double end)
      : low_(std::floor(std::log10(low))),
        high_(std::max(std::ceil(std::log10(high)), low_ + 1)),
        begin_(begin),
        end_(end) {}

  double At(double value) const {
    return begin_ + (end_ - begin_) * (std::log10(value) - low_) / (high_ - low_);
  }
  int first() const { return static_cast<int>(low_); }
  int last() const { return static_cast<int>(high_); }

 private:
  double low_, high_, begin_, end_;
};

// "10 GFLOP/s" for 10^10.
std::string RateLabel(int decade) {
  static constexpr std::array<const char*, 6> kUnits = {"", "K", "M", "G", "T", "P"};
  const int unit = std::clamp(decade / 3, 0, 5);
  return absl::StrCat(static_cast<int64_t>(std::pow(10.0, decade - 3 * unit)), " ", kUnits[unit],
                      "FLOP/s");
}

class Picture {
 public:
  Picture(std::span<const OperationProfile> operations, const Ceilings& ceilings)
      : operations_(operations), ceilings_(ceilings), x_(IntensityAxis()), y_(RateAxis()) {}

  std::string Draw(const std::string& title) const {
    return absl::StrCat(
        absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                        "font-family=\"sans-serif\" fill=\"#222\">\n"
                        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                        kWidth, kHeight),
        Text(kLeft, 34, title, "start", 17), Grid(), Roof(), Points(), Bars(), "</svg>\n");
  }

 private:
  static double Intensity(const OperationProfile& o) { return o.flops / o.bytes; }
  static double Rate(const OperationProfile& o) { return o.flops / o.seconds; }
  double Ridge() const { return ceilings_.flops_per_second / ceilings_.read_bytes_per_second; }

  Axis IntensityAxis() const {
    double low = Ridge(), high = Ridge();
    for (const OperationProfile& o : operations_) {
      if (o.flops == 0) continue;
      low = std::min(low, Intensity(o));
      high = std::max(high, Intensity(o));
    }
    return {low / 1.5, high * 3, kLeft, kLeft + kPlotWidth};
  }
  Axis RateAxis() const {
    double low = ceilings_.flops_per_second, high = low;
    for (const OperationProfile& o : operations_) {
      if (o.flops == 0 || o.seconds <= 0) continue;
      low = std::min(low, Rate(o));
      high = std::max(high, Rate(o));
    }
    return {low / 1.5, high * 1.5, kTop + kPlotHeight, kTop};
  }

  std::string Grid() const {
    constexpr const char* kStyle = "stroke=\"#ddd\"";
    std::string out;
    for (int d = x_.first(); d <= x_.last(); ++d) {
      const double x = x_.At(std::pow(10.0, d));
      absl::StrAppend(
          &out, Line(x, kTop, x, kTop + kPlotHeight, kStyle),
          Text(x, kTop + kPlotHeight + 20, absl::StrFormat("%g", std::pow(10.0, d)), "middle"));
    }
    for (int d = y_.first(); d <= y_.last(); ++d) {
      const double y = y_.At(std::pow(10.0, d));
      absl::StrAppend(&out, Line(kLeft, y, kLeft + kPlotWidth, y, kStyle),
                      Text(kLeft - 6, y + 4, RateLabel(d), "end", 11));
    }
    return absl::StrCat(out, Text(kLeft + kPlotWidth / 2, kTop + kPlotHeight + 44,
                                  "flops for each byte that must be moved", "middle"));
  }

  std::string Roof() const {
    const double low = std::pow(10.0, x_.first()), high = std::pow(10.0, x_.last());
    const double bandwidth = ceilings_.read_bytes_per_second, peak = ceilings_.flops_per_second;
    // Cut where it leaves the picture.
    const double begin = std::max(low, std::pow(10.0, y_.first()) / bandwidth);
    std::string out = absl::StrFormat(
        "<polyline points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\" fill=\"none\" stroke=\"#444\" "
        "stroke-width=\"2\"/>\n",
        x_.At(begin), y_.At(begin * bandwidth), x_.At(Ridge()), y_.At(peak), x_.At(high),
        y_.At(peak));
    return absl::StrCat(
        out,
        Text(kLeft + kPlotWidth - 6, y_.At(peak) - 8,
             absl::StrFormat("%.4g TFLOP/s, %.4g GB/s", peak * 1e-12, bandwidth * 1e-9), "end"));
  }

  std::string Points() const {
    std::string out;
    for (size_t i = 0; i < operations_.size(); ++i) {
      const OperationProfile& o = operations_[i];
      if (o.flops == 0 || o.seconds <= 0) continue;
      absl::StrAppend(
          &out, absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"%s\" "
                                "fill-opacity=\"0.8\"><title>%s</title></circle>\n",
                                x_.At(Intensity(o)), y_.At(Rate(o)), Colour(i), Escaped(o.name)));
    }
    return out;
  }

  std::string Bars() const {
    double longest = 0, total = 0;
    for (const OperationProfile& o : operations_) {
      longest = std::max(longest, o.seconds);
      total += o.seconds;
    }
    std::string out = Text(kBarsLeft, kTop - 12, "time in the step; dark: the floor");
    const double pitch = std::min(36.0, kPlotHeight / static_cast<double>(operations_.size()));
    for (size_t i = 0; i < operations_.size(); ++i) {
      const OperationProfile& o = operations_[i];
      const double y = kTop + pitch * static_cast<double>(i), width = kBarsWidth / longest;
      const double floor = std::min(FloorSeconds(o, ceilings_), o.seconds);
      for (const auto& [seconds, opacity] : {std::pair{o.seconds, 0.35}, {floor, 1.0}}) {
        absl::StrAppend(
            &out, absl::StrFormat("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                                  "height=\"%.1f\" fill=\"%s\" fill-opacity=\"%g\"/>\n",
                                  kBarsLeft, y, width * seconds, pitch - 8, Colour(i), opacity));
      }
      absl::StrAppend(&out, Text(kBarsLeft - 8, y + pitch / 2, o.name, "end", 12),
                      Text(kBarsLeft + width * o.seconds + 5, y + pitch / 2,
                           absl::StrFormat("%.1f%%", 100 * o.seconds / total), "start", 11));
    }
    return out;
  }

  static const char* Colour(size_t i) { return kColours[i % kColours.size()]; }

  std::span<const OperationProfile> operations_;
  const Ceilings ceilings_;
  const Axis x_, y_;
};

}  // namespace

double FloorSeconds(const OperationProfile& operation, const Ceilings& ceilings) {
  return std::max(operation.bytes / ceilings.read_bytes_per_second,
                  operation.flops / ceilings.flops_per_second);
}

std::string RooflineSvg(std::span<const OperationProfile> operations, const Ceilings& ceilings,
                        const std::string& title) {
  return Picture(operations, ceilings).Draw(title);
}

}  // namespace isobit
