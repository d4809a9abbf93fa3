//! One step along a stack out of hand-written code, by the tables of its file.
//!
//! framehop knows the instruction pointer, stack pointer and frame pointer, and reads no memory while it looks for
//! a frame. Assembler functions, OpenSSL's above all, keep the address of their frame in another register
//! (`DW_CFA_def_cfa_register: rax`) or on the stack (`DW_OP_breg7 +88; DW_OP_deref`). In Debian's libcrypto 85
//! functions do, among them SHA-2, AES-GCM and the multiplication of RSA, in which a server with TLS spends its time.

use framehop::x86_64::{Reg, UnwindRegsX86_64};
use gimli::{
    CfaRule, EhFrame, EndianSlice, Evaluation, EvaluationResult, Location, NativeEndian, Register,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _, Value, X86_64,
};

use crate::module::Tables;

type Section<'data> = EndianSlice<'data, NativeEndian>;

/// Registers that a function restores, by the System V ABI for x86-64.
const SAVED: [Register; 6] =
    [X86_64::RBX, X86_64::RBP, X86_64::R12, X86_64::R13, X86_64::R14, X86_64::R15];

/// Reads a word of the stack.
type Read<'a> = &'a mut dyn FnMut(u64) -> Result<u64, ()>;

/// The registers of the caller of code at a stated address, with its instruction pointer.
///
/// `None` where the frame is found by stack pointer or frame pointer alone: that is framehop's, which
/// remembers its rules. Registers that no rule mentions have the value that they had in the callee, as
/// functions of one assembler file agree among themselves.
pub(crate) fn caller(
    tables: &Tables<'_>,
    address: u64,
    registers: &UnwindRegsX86_64,
    read: Read<'_>,
) -> Option<UnwindRegsX86_64> {
    let header = tables.header.parse(&tables.bases, 8).ok()?;
    let section = EhFrame::from(tables.eh_frame);
    let table = header.table()?;
    let bases = &tables.bases;
    let fde = table.fde_for_address(&section, bases, address, EhFrame::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(&section, bases, &mut context, address).ok()?;
    let mut evaluation =
        Step { section: &section, encoding: fde.cie().encoding(), registers, read };
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP | X86_64::RBP, .. } => return None,
        CfaRule::RegisterAndOffset { register, offset } => {
            register_value(registers, *register)?.checked_add_signed(*offset)?
        }
        CfaRule::Expression(expression) => evaluation.evaluate(expression)?,
    };
    if frame <= registers.sp() {
        return None;
    }
    let mut found = *registers;
    for register in SAVED {
        if let Some(value) = evaluation.restore(frame, row.register(register).as_ref()) {
            found.set(name(register)?, value);
        }
    }
    found.set_ip(evaluation.restore(frame, row.register(X86_64::RA).as_ref())?);
    found.set_sp(frame);
    Some(found)
}

/// The inputs of the rules of one frame.
struct Step<'a, 'data> {
    section: &'a EhFrame<Section<'data>>,
    encoding: gimli::Encoding,
    registers: &'a UnwindRegsX86_64,
    read: Read<'a>,
}

impl Step<'_, '_> {
    /// The value that a register had in the caller; `None` if it is the same.
    fn restore(&mut self, frame: u64, rule: Option<&RegisterRule<usize>>) -> Option<u64> {
        match rule? {
            RegisterRule::Offset(offset) => (self.read)(frame.checked_add_signed(*offset)?).ok(),
            RegisterRule::ValOffset(offset) => frame.checked_add_signed(*offset),
            RegisterRule::Register(register) => register_value(self.registers, *register),
            RegisterRule::Expression(expression) => {
                let at = self.evaluate(expression)?;
                (self.read)(at).ok()
            }
            RegisterRule::ValExpression(expression) => self.evaluate(expression),
            _ => None,
        }
    }

    fn evaluate(&mut self, expression: &UnwindExpression<usize>) -> Option<u64> {
        let code = expression.get(self.section).ok()?.0;
        let mut evaluation = Evaluation::new(code, self.encoding);
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = register_value(self.registers, register)?;
                    evaluation.resume_with_register(Value::Generic(value)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    let value = (self.read)(address).ok()?;
                    evaluation.resume_with_memory(Value::Generic(value)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result().last()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }
}

fn register_value(registers: &UnwindRegsX86_64, register: Register) -> Option<u64> {
    if register == X86_64::RA {
        return Some(registers.ip());
    }
    Some(registers.get(name(register)?))
}

/// A general register by the number that DWARF gives it (System V ABI for x86-64, figure 3.36).
fn name(register: Register) -> Option<Reg> {
    const NAMES: [Reg; 16] = [
        Reg::RAX,
        Reg::RDX,
        Reg::RCX,
        Reg::RBX,
        Reg::RSI,
        Reg::RDI,
        Reg::RBP,
        Reg::RSP,
        Reg::R8,
        Reg::R9,
        Reg::R10,
        Reg::R11,
        Reg::R12,
        Reg::R13,
        Reg::R14,
        Reg::R15,
    ];
    NAMES.get(usize::from(register.0)).copied()
}

/// All registers of a sample, whose first nine and last eight are in the order of `asm/perf_regs.h`.
pub(crate) fn registers(
    [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, rip, high @ ..]: [u64; crate::record::REGISTERS],
) -> UnwindRegsX86_64 {
    const HIGH: [Reg; 8] =
        [Reg::R8, Reg::R9, Reg::R10, Reg::R11, Reg::R12, Reg::R13, Reg::R14, Reg::R15];
    let mut registers = UnwindRegsX86_64::new(rip, rsp, rbp);
    let low = [
        (Reg::RAX, rax),
        (Reg::RBX, rbx),
        (Reg::RCX, rcx),
        (Reg::RDX, rdx),
        (Reg::RSI, rsi),
        (Reg::RDI, rdi),
    ];
    for (register, value) in low.into_iter().chain(HIGH.into_iter().zip(high)) {
        registers.set(register, value);
    }
    registers
}
