//! Removes debug information from modules. The kernel does not load it, and it is most of a freshly built module.

use object::build::elf::Builder;

/// Removes the sections of debug information and their relocations. Returns the module unchanged if that is impossible.
pub(crate) fn without_debug(module: Vec<u8>) -> Vec<u8> {
    stripped(&module).unwrap_or(module)
}

fn stripped(module: &[u8]) -> Option<Vec<u8>> {
    let mut builder = Builder::read(module).ok()?;
    if !builder.sections.iter().any(|section| is_debug(&section.name)) {
        return None;
    }
    for section in &mut builder.sections {
        section.delete = is_debug(&section.name);
        // 0 means 1, but the builder does not accept 0.
        section.sh_addralign = section.sh_addralign.max(1);
        if !section.sh_addralign.is_power_of_two() {
            return None;
        }
    }
    builder.delete_orphans();
    let mut out = Vec::new();
    builder.write(&mut out).ok()?;
    Some(out)
}

/// Recognises a section by its name: `.debug_info`, and `.rela.debug_info` with its relocations.
fn is_debug(name: &[u8]) -> bool {
    let of = name.strip_prefix(b".rela").or(name.strip_prefix(b".rel")).unwrap_or(name);
    of.starts_with(b".debug") || of.starts_with(b".zdebug")
}

#[cfg(test)]
mod tests {
    use object::build::elf::{Relocation, SectionData};
    use object::elf;

    use super::*;

    /// An object file with code and, if `debug` is set, debug information.
    fn module(debug: bool) -> Vec<u8> {
        let mut builder = Builder::new(object::Endianness::Little, true);
        builder.header.e_type = elf::ET_REL;
        builder.header.e_machine = elf::EM_X86_64;
        let mut add = |name: &str, kind: elf::SectionType, data: SectionData<'static>| {
            let section = builder.sections.add();
            (section.name, section.sh_type, section.data) = (name.to_owned().into_bytes().into(), kind, data);
            section.sh_addralign = 1;
            section.id()
        };
        let bytes = |text: &'static str| SectionData::Data(text.as_bytes().into());
        add(".text", elf::SHT_PROGBITS, bytes("code"));
        add(".modinfo", elf::SHT_PROGBITS, bytes("depends=jbd2\0"));
        let symbols = add(".symtab", elf::SHT_SYMTAB, SectionData::Symbol);
        add(".strtab", elf::SHT_STRTAB, SectionData::String);
        add(".shstrtab", elf::SHT_STRTAB, SectionData::SectionString);
        if debug {
            let info = add(".debug_info", elf::SHT_PROGBITS, bytes("much of it"));
            let places = add(".rela.debug_info", elf::SHT_RELA, SectionData::Relocation(Vec::new()));
            let symbol = builder.symbols.add();
            symbol.section = Some(info);
            let symbol = Some(symbol.id());
            let section = builder.sections.get_mut(places);
            (section.sh_link_section, section.sh_info_section) = (Some(symbols), Some(info));
            let place = Relocation { r_offset: 0, symbol, r_type: elf::R_X86_64_64, r_addend: 0 };
            section.data = SectionData::Relocation(vec![place]);
        }
        let mut out = Vec::new();
        builder.write(&mut out).unwrap();
        out
    }

    #[test]
    fn debug_information_is_left_out_and_all_else_stays() {
        let sections = |bytes: &[u8]| -> Vec<_> {
            let builder = Builder::read(bytes).unwrap();
            assert_eq!(builder.symbols.count(), builder.sections.iter().filter(|s| *s.name == *b".debug_info").count());
            let content = |data: &SectionData| if let SectionData::Data(data) = data { data.to_vec() } else { vec![] };
            builder.sections.iter().map(|section| (section.name.to_vec(), content(&section.data))).collect()
        };
        assert_ne!(sections(&module(true)), sections(&module(false)));
        assert_eq!(sections(&without_debug(module(true))), sections(&module(false)));
        assert_eq!(without_debug(module(false)), module(false));
        assert_eq!(without_debug(b"no module".to_vec()), b"no module");
    }
}
