# The tests of a cross-compiled build: base, tensor and kernels, with GoogleTest built from its source, since
# the installed one is for this machine.
if(NOT TRIL_TESTS)
  return()
endif()
find_path(GOOGLETEST_SOURCE NAMES googletest/include/gtest/gtest.h PATHS /usr/src/googletest
  NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
set(BUILD_GMOCK OFF)
set(INSTALL_GTEST OFF)
add_subdirectory(${GOOGLETEST_SOURCE} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)

enable_testing()
tril_test(base tril_base)
tril_test(tensor tril_tensor)
tril_test(kernels tril_kernels)
