# The native program, of these sources: nix-build packaging/nix
{
  pkgs ? import <nixpkgs> { },
}:
pkgs.rustPlatform.buildRustPackage {
  pname = "jissoku";
  version = (pkgs.lib.importTOML ../../Cargo.toml).workspace.package.version;
  src = pkgs.lib.fileset.toSource {
    root = ../..;
    fileset = pkgs.lib.fileset.unions [
      ../../Cargo.toml
      ../../Cargo.lock
      ../../crates
    ];
  };
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [
    "--package"
    "jissoku-cli"
  ];
  # They start servers and read the kernel's counters, which the sandbox has not.
  doCheck = false;

  nativeBuildInputs = [ pkgs.installShellFiles ];
  postInstall = ''
    installShellCompletion --cmd jissoku \
      --bash <($out/bin/jissoku completions bash) \
      --zsh <($out/bin/jissoku completions zsh) \
      --fish <($out/bin/jissoku completions fish)
    $out/bin/jissoku man man1
    installManPage man1/*.1
  '';

  meta = {
    description = "HTTP server, reverse proxy and load generator";
    license = with pkgs.lib.licenses; [
      mit
      asl20
    ];
    platforms = pkgs.lib.platforms.linux;
    mainProgram = "jissoku";
  };
}
