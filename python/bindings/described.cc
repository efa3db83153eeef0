// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "bindings/described.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "explain/chart.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "explain/wavelengths.h"

namespace rotary::python {

namespace nb = nanobind;

nb::dict described(const ModelRope& rope, const Frequencies& frequencies,
                   const std::vector<explain::Property>& properties, const explain::Json& json,
                   std::size_t columns) {
  const std::vector<explain::PairWavelength> pairs = explain::pair_wavelengths(rope, frequencies);
  const explain::Terminal terminal{.columns = columns, .colour = false, .unicode = true};
  nb::list rows;
  for (const explain::Property& property : properties) {
    rows.append(nb::make_tuple(explain::printable(property.name),
                               explain::printable(property.value),
                               explain::printable(property.meaning)));
  }
  nb::list lengths;
  nb::list unscaled;
  nb::list axes;
  for (const explain::PairWavelength& pair : pairs) {
    lengths.append(pair.wavelength);
    unscaled.append(pair.unscaled);
    axes.append(pair.axis);
  }
  nb::dict result;
  result["rows"] = rows;
  result["chart"] = explain::draw_chart(pairs, rope.axes, rope.context.trained, terminal);
  result["sentences"] = explain::explain_wavelengths(pairs, rope.context.trained);
  result["wavelengths"] = lengths;
  result["unscaled_wavelengths"] = unscaled;
  result["axes"] = axes;
  result["json"] = explain::to_text(json);
  return result;
}

}  // namespace rotary::python
