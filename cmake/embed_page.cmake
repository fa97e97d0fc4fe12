# Makes one HTML file of the template's parts (${PAGE}/*.html, *.css, *.js) and writes it as a C array to ${OUT}.
# page.html names each part where it belongs: @file@. @DATA@ stays: the program puts a report's data there.

file(READ ${PAGE}/page.html text)
file(GLOB parts ${PAGE}/*.css ${PAGE}/*.js)
foreach(part ${parts})
  get_filename_component(name ${part} NAME)
  file(READ ${part} inside)
  string(REPLACE "@${name}@" "${inside}" text "${text}")
endforeach()
file(WRITE ${OUT}.html "${text}")
file(READ ${OUT}.html bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include <stddef.h>
extern const unsigned char tt_page_template[];
extern const size_t tt_page_template_bytes;
const unsigned char tt_page_template[] = {
${bytes}
};
const size_t tt_page_template_bytes = sizeof(tt_page_template);
")
