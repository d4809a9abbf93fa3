/* Functions that keep the address of their frame where assembler code keeps it, as OpenSSL's does.
 *
 * Each burns CPU time in turn until the process is ended: `in_register` keeps it in rax while a helper, which
 * leaves rax alone, runs; `on_stack` has aligned its stack and keeps the stack pointer of before in a word of it. */

__asm__(
    ".text\n"
    ".type helper,@function\n"
    "helper:\n"
    ".cfi_startproc\n"
    "1: dec %rdi\n"
    "jnz 1b\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size helper,.-helper\n"

    ".globl in_register\n"
    ".type in_register,@function\n"
    "in_register:\n"
    ".cfi_startproc\n"
    "mov %rsp,%rax\n"
    ".cfi_def_cfa_register %rax\n"
    "push %rbx\n"
    ".cfi_offset %rbx,-16\n"
    "push %rbp\n"
    ".cfi_offset %rbp,-24\n"
    "xor %ebp,%ebp\n"
    "xor %ebx,%ebx\n"
    "sub $4096,%rsp\n"
    "and $-256,%rsp\n"
    "call helper\n"
    "mov -16(%rax),%rbp\n"
    ".cfi_restore %rbp\n"
    "mov -8(%rax),%rbx\n"
    ".cfi_restore %rbx\n"
    "mov %rax,%rsp\n"
    ".cfi_def_cfa_register %rsp\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size in_register,.-in_register\n"

    ".globl on_stack\n"
    ".type on_stack,@function\n"
    "on_stack:\n"
    ".cfi_startproc\n"
    "mov %rsp,%rax\n"
    ".cfi_def_cfa_register %rax\n"
    "push %rbp\n"
    ".cfi_offset %rbp,-16\n"
    "sub $512,%rsp\n"
    "and $-64,%rsp\n"
    "mov %rax,88(%rsp)\n"
    /* DW_CFA_def_cfa_expression, 6 bytes: breg7 (rsp) +88, deref, plus_uconst 8. */
    ".cfi_escape 0x0f,0x06,0x77,0xd8,0x00,0x06,0x23,0x08\n"
    "xor %ebp,%ebp\n"
    "xor %eax,%eax\n"
    "1: dec %rdi\n"
    "jnz 1b\n"
    "mov 88(%rsp),%rsi\n"
    ".cfi_def_cfa %rsi,8\n"
    "mov -8(%rsi),%rbp\n"
    ".cfi_restore %rbp\n"
    "lea (%rsi),%rsp\n"
    ".cfi_def_cfa_register %rsp\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size on_stack,.-on_stack\n");

void in_register(long rounds);
void on_stack(long rounds);

__attribute__((noinline)) void calls_in_register(void) {
    in_register(100000);
    __asm__ volatile("");
}

__attribute__((noinline)) void calls_on_stack(void) {
    on_stack(100000);
    __asm__ volatile("");
}

int main(void) {
    for (;;) {
        calls_in_register();
        calls_on_stack();
    }
}
