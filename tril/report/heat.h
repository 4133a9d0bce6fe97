// The colours of weights, in pictures and on the page. Heat is the square root of a weight: small ones show.
#pragma once

#include <array>
#include <cstdint>

namespace tril {

using Color = std::array<uint8_t, 3>;  // red, green, blue

// Heats 0, 1/4, 1/2, 3/4 and 1; linear between them.
using HeatRamp = std::array<Color, 5>;
inline constexpr HeatRamp kLightHeat = {
    {{255, 255, 255}, {255, 225, 160}, {251, 140, 40}, {186, 50, 10}, {60, 10, 20}}};
// On dark paper, from dark to light.
inline constexpr HeatRamp kDarkHeat = {
    {{28, 31, 37}, {92, 32, 12}, {194, 65, 12}, {251, 146, 60}, {255, 241, 200}}};

}  // namespace tril
