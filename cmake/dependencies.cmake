# The libraries that tril uses, all from the distribution; docs/decisions.md says why each one. This file is
# installed and read again by find_package(tril), which is why the targets are IMPORTED: an exported library
# names them and carries no path of the machine that built it.
#
#   TRIL_KERNELS_ONLY    cross-compiling: fmt and Highway from their headers, so that no foreign package is needed
#   TRIL_ATTENTION_ONLY  find_package(tril COMPONENTS attention): neither oneDNN nor what training reads and writes
find_package(Threads REQUIRED)

if(TARGET tril_fmt)
  return()  # found before in this project
endif()
add_library(tril_fmt INTERFACE IMPORTED)
add_library(tril_hwy INTERFACE IMPORTED)
# Targets below AVX2 other than the baseline gain nothing measurable and cost compile time. Sanitizers look at one of the
# two that remain: the source is the same, and AVX-512 costs them minutes.
set(disabled_targets "HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128")
if(TRIL_SANITIZE)
  string(APPEND disabled_targets "|HWY_AVX3")
endif()
target_compile_definitions(tril_hwy INTERFACE "HWY_DISABLED_TARGETS=(${disabled_targets})")
if(TRIL_KERNELS_ONLY)
  # Only these two folders of /usr/include: the rest of it belongs to another machine.
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
  find_path(FMT_HEADERS fmt/format.h PATHS /usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  find_path(HWY_HEADERS hwy/highway.h PATHS /usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(CREATE_LINK ${FMT_HEADERS}/fmt ${CMAKE_BINARY_DIR}/headers/fmt SYMBOLIC)
  file(CREATE_LINK ${HWY_HEADERS}/hwy ${CMAKE_BINARY_DIR}/headers/hwy SYMBOLIC)
  target_compile_definitions(tril_fmt INTERFACE FMT_HEADER_ONLY)
  target_compile_definitions(tril_hwy INTERFACE HWY_COMPILE_ONLY_STATIC)
  target_include_directories(tril_fmt SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/headers)
  target_include_directories(tril_hwy SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/headers)
  return()
endif()

find_package(fmt REQUIRED)
target_link_libraries(tril_fmt INTERFACE fmt::fmt)
find_library(HWY_LIBRARY hwy REQUIRED)
target_link_libraries(tril_hwy INTERFACE ${HWY_LIBRARY})
if(TRIL_ATTENTION_ONLY)
  return()
endif()

find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
add_library(tril_zstd INTERFACE IMPORTED)
target_link_libraries(tril_zstd INTERFACE ${ZSTD_LIBRARY})
find_package(PNG REQUIRED)
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
add_library(tril_pcre2 INTERFACE IMPORTED)
target_link_libraries(tril_pcre2 INTERFACE ${PCRE2_LIBRARY})
if(TRIL_ONEDNN)
  # Not find_package(dnnl): the packaged one asks for OpenCL headers, which tril has no use for.
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  # tril itself uses no OpenMP; it only tells oneDNN's to use one thread. So this is the runtime of the compiler
  # that built the package, whatever compiler builds tril.
  find_library(GOMP_LIBRARY NAMES libgomp.so.1 gomp REQUIRED)
  add_library(tril_onednn INTERFACE IMPORTED)
  target_compile_definitions(tril_onednn INTERFACE TRIL_ONEDNN)
  target_link_libraries(tril_onednn INTERFACE ${DNNL_LIBRARY} ${GOMP_LIBRARY})
endif()
