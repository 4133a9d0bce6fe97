# cmake --install: the command, the headers of tril/, the libraries, and the files of find_package(tril).
# Two export sets, so that an embedder of the attention alone needs only fmt and Highway.
if(TRIL_KERNELS_ONLY)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tril)

if(TARGET tril_command)
  install(TARGETS tril_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tril DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN "*-inl.h" EXCLUDE)

get_property(libraries GLOBAL PROPERTY TRIL_LIBRARIES)
foreach(library ${libraries})
  string(REGEX REPLACE "^tril_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
set(attention_libraries tril_base tril_tensor tril_attention)
list(REMOVE_ITEM libraries ${attention_libraries})
install(TARGETS ${attention_libraries} EXPORT tril-attention-targets)
install(TARGETS ${libraries} tril EXPORT tril-targets)
foreach(set tril-attention-targets tril-targets)
  install(EXPORT ${set} NAMESPACE tril:: DESTINATION ${package_dir})
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tril-config.cmake.in ${PROJECT_BINARY_DIR}/tril-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tril-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tril-config.cmake ${PROJECT_BINARY_DIR}/tril-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/dependencies.cmake DESTINATION ${package_dir})
