/* printf of jsk_api: formats, and passes the text to `respond`. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

int jsk_respond(void *request, int status, const void *body, size_t size);

int jsk_printf(void *request, int status, const char *format, ...)
{
    char text[4096];
    char *longer = text;
    va_list arguments, again;
    int size, result = -1;

    if (format == NULL)
        return -1;
    va_start(arguments, format);
    va_copy(again, arguments);
    size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size >= (int)sizeof text) {
        longer = malloc((size_t)size + 1);
        if (longer != NULL)
            size = vsnprintf(longer, (size_t)size + 1, format, again);
    }
    va_end(again);
    if (size >= 0 && longer != NULL)
        result = jsk_respond(request, status, longer, (size_t)size);
    if (longer != text)
        free(longer);
    return result;
}
