# Writes the file ${FROM} as a C array tt_${NAME}[], with tt_${NAME}_bytes, to ${OUT}.

file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include <stddef.h>
extern const unsigned char tt_${NAME}[];
extern const size_t tt_${NAME}_bytes;
const unsigned char tt_${NAME}[] = {
${bytes}
};
const size_t tt_${NAME}_bytes = sizeof(tt_${NAME});
")
