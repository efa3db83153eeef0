# Dependencies and flags of the explorer's WebAssembly, built by emscripten (scripts/explorer.sh).
#
# Headers of the machine's nlohmann/json, Highway and fmt are used as they are; their folder also holds
# the C library of the machine, so each is linked into a folder of its own.
set(ROTARY_HAS_OPENMP OFF)
set(wasm_headers "${PROJECT_BINARY_DIR}/headers/wasm")
file(MAKE_DIRECTORY "${wasm_headers}")
foreach(package IN ITEMS nlohmann hwy fmt)
  find_path(ROTARY_WASM_${package} ${package} PATHS /usr/local/include /usr/include
            NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(CREATE_LINK "${ROTARY_WASM_${package}}/${package}" "${wasm_headers}/${package}" SYMBOLIC)
endforeach()

foreach(target IN ITEMS nlohmann_json::nlohmann_json hwy::hwy fmt::fmt-header-only)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} SYSTEM INTERFACE "${wasm_headers}")
endforeach()
target_compile_definitions(fmt::fmt-header-only INTERFACE FMT_HEADER_ONLY=1)
# One target: libhwy of the machine, which chooses at run time, is not for wasm.
target_compile_definitions(hwy::hwy INTERFACE HWY_COMPILE_ONLY_SCALAR)

add_compile_options(-fexceptions -include "${PROJECT_SOURCE_DIR}/explorer/wasm/bit_cast.h")
